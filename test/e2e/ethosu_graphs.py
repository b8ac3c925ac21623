"""Writes the TOSA file of every probe of an Ethos-U, in an environment that has the TOSA serializer.

usage: ethosu_graphs.py FOLDER_OF_PROBES OUT

OUT/N.tosa, and OUT/index.json: [[operator, parameters as the answers write them, N]].
"""
import json
import os
import sys

probes, out = sys.argv[1:]
sys.path.insert(0, probes)
import probe

probe.tosa_probes()
index = []
for i, (op, parameters, kind, build, *_) in enumerate(probe.PROBES):
    try:
        data = build()
    except Exception as why:  # the answers have no row for it either
        print(op, parameters, why, file=sys.stderr)
        continue
    with open(os.path.join(out, f"{i}.tosa"), "wb") as f:
        f.write(data)
    index.append([op, json.dumps(parameters, separators=(",", ":")), i])
with open(os.path.join(out, "index.json"), "w") as f:
    json.dump(index, f)
