"""Vela's core behind a socket: TOSA files in, command streams out.

Run by the interpreter of an environment that has ethos-u-vela, with -I -c. A request is one line of JSON (accelerator, system_config, memory_mode,
bytes) and that many bytes; an answer one line of JSON and the bytes of its `commands` and `weights`. The first line says which Vela it is. What
Vela prints goes nowhere, or into the reason for a refusal.
"""
import configparser
import json
import os
import sys
import tempfile

answers = os.fdopen(os.dup(1), "wb")
log = tempfile.TemporaryFile()
os.dup2(log.fileno(), 1)
os.dup2(log.fileno(), 2)


def answer(values, *blobs):
    answers.write(json.dumps(values).encode() + b"\n")
    for blob in blobs:
        answers.write(blob)
    answers.flush()


try:
    import importlib.metadata

    import ethosu
    from ethosu import regor
    ini_path = os.path.join(list(ethosu.__path__)[0], "config_files", "Arm", "vela.ini")
    ini = open(ini_path).read()
    parsed = configparser.ConfigParser(inline_comment_prefixes=";")
    parsed.read_string(ini)
    answer({"version": importlib.metadata.version("ethos-u-vela")})
except Exception as e:
    answer({"error": f"{type(e).__name__}: {e}"})
    sys.exit(1)

# As Vela's own front end sets them.
OPTIONS = ("[compiler]\nenable_db=true\noutput_format=Raw\ncop_format=COP1\n[scheduler]\noptimize=Performance\narena_size_limit=%d\n"
           "disable_feature=\ncpu_tensor_alignment=16\ntensor_allocator=HillClimb\n[graph]\n")


def arena_limit(memory_mode, kind):
    """Bytes of the fast memory that the mode gives; by default what the family's addresses reach."""
    section = f"Memory_Mode.{memory_mode}"
    while True:
        if parsed.has_option(section, "arena_cache_size"):
            return parsed.getint(section, "arena_cache_size")
        if not parsed.has_option(section, "inherit"):
            return 1 << (32 if kind == "u55" else 40)
        section = parsed.get(section, "inherit")


def clock(system_config):
    return float(parsed.get(f"System_Config.{system_config}", "core_clock"))


def compiled(request, tosa):
    _, kind, macs = request["accelerator"].split("-")
    macs, cores = int(macs), 1
    if (kind, macs) == ("u65", 512):
        macs, cores = 256, 2
    system = (f"[architecture]\nmacs={macs}\ncores={cores}\n[vela]\nsystem_config_name={request['system_config']}\n"
              f"memory_mode_name={request['memory_mode']}\n{ini}")
    return regor.compile("Ethos" + kind.upper(), tosa, "TOSA", system, options=OPTIONS % arena_limit(request["memory_mode"], kind), verbose=False)


def tensor(t):
    return {"address": t.address, "size": t.size, "region": t.region, "element_size": t.element_size, "shape": list(t.shape)}


def printed():
    sys.stdout.flush()
    log.seek(0)
    text = log.read(20000).decode(errors="replace")
    log.seek(0)
    log.truncate()
    return " ".join(line.strip() for line in text.splitlines() if line.strip() and "Different TOSA spec" not in line)


def serve(request, tosa):
    printed()
    try:
        frequency = clock(request["system_config"])
        model = compiled(request, tosa)
    except Exception as e:
        said = printed()
        return answer({"refused": str(e) + (f" ({said})" if said else "")})
    report, table = model.perf_report, model.opt_database.tables["perf"]
    name, cycles = table.header.index("name"), table.header.index("op_cycles")
    commands, weights = bytes(model.command_stream), bytes(model.read_only.data)
    answer({"commands": len(commands), "weights": len(weights), "weights_region": model.read_only.region,
            "scratch": model.scratch.size, "scratch_region": model.scratch.region,
            "scratch_fast": model.scratch_fast.size, "scratch_fast_region": model.scratch_fast.region,
            "inputs": [tensor(t) for t in model.inputs], "outputs": [tensor(t) for t in model.outputs], "variables": len(model.variables),
            "cycles": report.totalCycles, "npu_cycles": report.npuCycles, "npu_ops": report.npuOps, "cpu_ops": report.cpuOps,
            "macs": report.macCount, "clock_hz": frequency, "ops": [[row[name], int(row[cycles])] for row in table.data]}, commands, weights)


while True:
    line = sys.stdin.buffer.readline()
    if not line:
        break
    request = json.loads(line)
    serve(request, sys.stdin.buffer.read(request["bytes"]))
