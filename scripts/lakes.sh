#!/usr/bin/env bash
# Fetches the jars that lakes need, those of consumer/sink/lake/jars.py with what they need themselves, by Spark's own
# resolver, into the folder in which the program looks for them. Does nothing where they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

python=.venv/bin/python
say() { "$python" -c "from consumer.sink.lake.jars import *; print($1)"; }
folder=$(say 'jar_folder()')
wanted=$(say '",".join(every_artifact())')
[ "$(cat "$folder/.fetched" 2>/dev/null || true)" = "$wanted" ] && exit
home=$(pwd)/build/lakes
mkdir -p "$home" "$folder"
echo pass >"$home/nothing.py"
# A home of its own: a Maven cache that has descriptions without jars misleads the resolver.
SPARK_SUBMIT_OPTS="-Duser.home=$home" "$("$python" -c 'import pyspark; print(pyspark.__path__[0])')/bin/spark-submit" \
  --master 'local[1]' --conf "spark.jars.ivy=$home/ivy" --conf spark.ui.enabled=false --packages "$wanted" \
  "$home/nothing.py" >"$home/log" 2>&1 || { tail -n 20 "$home/log" >&2; exit 1; }
# Spark has the rest of what they need. group_artifact-release.jar -> artifact-release.jar
for group in $(say '" ".join(sorted({a.split(":")[0] for a in every_artifact()}))'); do
  for jar in "$home/ivy/jars/$group"_*.jar; do
    name=${jar##*/}
    cp "$jar" "$folder/${name#*_}"
  done
done
echo "$wanted" >"$folder/.fetched"
echo "lakes: $(find "$folder" -name '*.jar' | wc -l) jars in $folder"
