"""numpy's files without numpy: lit's interpreter has none."""
import random
import struct
import zipfile


def npy(values, shape, kind="<f4"):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)!r}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    code = {"<f4": "f", "<f8": "d"}[kind]
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + struct.pack(f"<{len(values)}{code}", *values)


def normal(count, seed):
    draw = random.Random(seed)
    return [draw.gauss(0, 1) for _ in range(count)]


def save(path, data):
    with open(path, "wb") as f:
        f.write(data)


def npz(path, arrays, compressed=False):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as z:
        for name, data in arrays.items():
            z.writestr(name + ".npy", data)
