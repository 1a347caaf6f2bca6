import gzip
import io
import pickle
import zipfile

data = {f"file{i}.txt": f"content {i} " * (i + 5) for i in range(60)}
buffer = io.BytesIO()
with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, text in data.items():
        archive.writestr(name, text)
with zipfile.ZipFile(io.BytesIO(buffer.getvalue())) as archive:
    back = {info.filename: archive.read(info).decode() for info in archive.infolist()}
packed = gzip.compress("".join(data.values()).encode())
objects = [{"n": i, "values": list(range(i % 20)), "name": f"o{i}"} for i in range(600)]
copied = pickle.loads(pickle.dumps(objects))
print(back == data, len(gzip.decompress(packed)), copied == objects, len(pickle.dumps(objects)))
