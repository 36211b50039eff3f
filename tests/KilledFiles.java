import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.net.URI;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

/**
 * Hadoop's local files, which count each call that changes something, and end at a given one: by SIGKILL, or, to go on
 * in the same process, by refusing that call and all later ones.  Spark's own calls count as well.
 */
public class KilledFiles extends LocalFileSystem {
    private static String below;
    private static int killAt;
    private static boolean forReal;
    private static boolean dead;
    private static final List<String> calls = new ArrayList<>();

    public KilledFiles() {
        super(new Raw());
    }

    /** Count from here on what is done below a folder; end before call number {@code at}, from 0 on; -1 for never. */
    public static synchronized void arm(String folder, int at, boolean real) {
        below = folder;
        killAt = at;
        forReal = real;
        dead = false;
        calls.clear();
    }

    /** Count no more, and let everything through; whether a call has been refused. */
    public static synchronized boolean disarm() {
        boolean was = dead;
        below = null;
        dead = false;
        return was;
    }

    /** The calls so far, those of ours with an asterisk. */
    public static synchronized List<String> seen() {
        return Collections.unmodifiableList(new ArrayList<>(calls));
    }

    private static synchronized void call(String what, Path path) throws IOException {
        if (below == null || !path.toUri().getPath().startsWith(below)) {
            return;
        }
        if (dead) {
            throw new IOException("killed before");
        }
        if (calls.size() == killAt) {
            if (forReal) {
                sun.misc.Signal.raise(new sun.misc.Signal("KILL"));
            }
            dead = true;
            throw new IOException("killed before " + what + " " + path);
        }
        boolean ours = false;
        for (StackTraceElement frame : Thread.currentThread().getStackTrace()) {
            String name = frame.getClassName();
            ours = name.startsWith("py4j.");
            if (ours || name.startsWith("org.apache.spark.")) {
                break;
            }
        }
        calls.add((ours ? "* " : "  ") + what + " " + path.toUri().getPath().substring(below.length()));
    }

    /** Hadoop's files without checksums, counted. */
    public static class Raw extends RawLocalFileSystem {
        private FSDataOutputStream counted(FSDataOutputStream stream, Path path) throws IOException {
            return new FSDataOutputStream(new FilterOutputStream(stream) {
                private boolean closed;

                @Override
                public void write(byte[] bytes, int from, int count) throws IOException {
                    out.write(bytes, from, count);
                }

                @Override
                public void close() throws IOException {
                    if (!closed) {
                        closed = true;
                        call("close", path);
                        out.close();
                    }
                }
            }, null);
        }

        @Override
        public FSDataOutputStream create(
                Path path, boolean overwrite, int buffer, short replication, long block, Progressable progress)
                throws IOException {
            call("create", path);
            return counted(super.create(path, overwrite, buffer, replication, block, progress), path);
        }

        @Override
        public FSDataOutputStream create(
                Path path,
                FsPermission permission,
                boolean overwrite,
                int buffer,
                short replication,
                long block,
                Progressable progress)
                throws IOException {
            return create(path, overwrite, buffer, replication, block, progress);
        }

        @Override
        public boolean rename(Path from, Path to) throws IOException {
            call("rename", from);
            return super.rename(from, to);
        }

        @Override
        public boolean delete(Path path, boolean recursive) throws IOException {
            if (exists(path)) {
                call("delete", path);
            }
            return super.delete(path, recursive);
        }

        @Override
        public boolean mkdirs(Path path) throws IOException {
            if (!exists(path)) {
                call("mkdirs", path);
            }
            return super.mkdirs(path);
        }

        @Override
        public boolean mkdirs(Path path, FsPermission permission) throws IOException {
            return mkdirs(path);
        }

        @Override
        public void setPermission(Path path, FsPermission permission) {
            // otherwise a process of its own each time
        }
    }

    /** The same as a part of a FileContext, by which Spark writes the log of a stream. */
    public static class Context extends ChecksumFs {
        public Context(URI uri, Configuration conf) throws Exception {
            super(new RawContext(conf));
        }
    }

    private static class RawContext extends DelegateToFileSystem {
        RawContext(Configuration conf) throws Exception {
            super(URI.create("file:///"), new Raw(), conf, "file", false);
        }

        @Override
        public int getUriDefaultPort() {
            return -1;
        }

        @Override
        public boolean isValidName(String name) {
            return true;
        }
    }
}
