package org.apache.spark.util;

/**
 * In the place of what Spark has under this name: it reads the bytes of the class of each closure, which takes a quarter of
 * the time of a job over a few rows, to cut off what a Scala shell or an inner class would drag along. The closures here
 * are those that Spark is compiled with, and a task that cannot be serialized is still an error where it is sent.
 */
public final class SparkClosureCleaner$ {
    public static final SparkClosureCleaner$ MODULE$ = new SparkClosureCleaner$();

    public <F> F clean(F closure, boolean checkSerializable, boolean cleanTransitively) {
        return closure;
    }

    public <F> boolean clean$default$2() {
        return true;
    }

    public <F> boolean clean$default$3() {
        return true;
    }
}
