"""Fetches jars into ``.data/jars`` by Maven, which uses its own settings: a folder for each purpose."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPARK = "4.1.4"  # the newest version that has jars of both table formats
DELTA_JAR = "io.delta:delta-spark_4.1_2.13:4.3.1"
ICEBERG_JAR = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
KAFKA_SPARK = "4.2.1"
KAFKA_SOURCE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
AVRO = "org.apache.spark:spark-avro_2.13:4.2.0"
KAFKA_SOURCE_FOR_DELTA = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1"
KAFKA_BROKER = "org.apache.kafka:kafka_2.13:4.3.1"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dovetail</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>
  </dependencies>
</project>
"""


class Missing(Exception):
    """Something that cannot be had here; the message is a sentence."""


def fetch(artifact: str, python: Path | None = None) -> list[Path]:
    """Return an artifact with all that it needs, without what the PySpark of an environment has itself.

    Raises ``Missing`` if Maven or the artifact cannot be had.
    """
    folder = ROOT / ".data" / "jars" / artifact.replace(":", "-")
    if not (folder / "fetched").exists():
        _fetch(artifact, folder)
    return [jar for jar in sorted(folder.glob("*.jar")) if _name(jar) not in _names_of_spark(python)]


def _fetch(artifact: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pom = folder / "pom.xml"
    pom.write_text(_POM.format(*artifact.split(":")))
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    try:
        done = subprocess.run(
            [*command, f"-DoutputDirectory={folder}"], capture_output=True, text=True, timeout=600, check=False
        )
    except FileNotFoundError as error:
        raise Missing(f"{artifact} was not fetched, since there is no Maven (mvn) here.") from error
    if done.returncode:
        raise Missing(f"{artifact} was not tried, since Maven could not fetch it.")
    (folder / "fetched").touch()


def _names_of_spark(python: Path | None) -> set[str]:
    found = python.parent.parent.glob("lib/python*/site-packages/pyspark/jars/*.jar") if python else ()
    return set(map(_name, found))


def _name(jar: Path) -> str:
    """Return the name of a jar without its version."""
    return re.sub(r"-\d[\w.\-]*\.jar$", "", jar.name)
