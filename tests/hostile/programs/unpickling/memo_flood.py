# aim = "memory"
# tries = "Has a pickle reserve a memo of a billion places."
import pickle

pickle.loads(b"]r\xff\xff\xff\x07.")
held = []
for _ in range(8):
    held.append(pickle.loads(b"\x80\x04\x8e" + (100 << 20).to_bytes(8, "little") + b"x" * (100 << 20) + b"."))
