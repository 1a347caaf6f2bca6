"""Feather files and Arrow streams are read, and Feather files written, with their index and types.

What is read first was written by pyarrow: a Feather file with LZ4, a dictionary and two batches, and
the same as a stream.
"""

import base64
import io
import zlib

import pandas as pd

FILE = """
eNrtGE1vG0X0rb2xV8GAmyySqxbVLB8NIkRJW0XhS7gXqASoVgQqUlu5G++kXWrvWut1ayuysDhx44rEpb8AceDAgUOPHDjkiDjl
AHeOnAjvzc6sd8eTj6rigjzR7vucee/NvPfGm6vb29dvbAAc4rBKAFWgsQjPQQkWwEIMh2Gm/Aq+TcFvmoSjGB/iW/gmmYX4ipCd
w9ee4wceG7baYWfQDfrO2/Wbzn02cm6v1p2E1+IKjIv2nMDtMsSCQaeDGrs+63itPK/nBp7bb8WjHjGdQeC3Q485KAkG3d4oFfTj
iJhdFrueG7vI2nNYgLp+cJfkn336wZtbzng89STvgtP245GjOpFyFTfCnS9YOz6NFxTGeLU+tRPMGgk0Fvwg3rwyayBlH2diOGti
qDGx2wldrZGM4DgzD+8xTTCSqxjDRVjsdzUnJyWbV24O+rdPMuq5mlMSTI3JWXPTozvOzH1M01k7kqsYaqOhu2Hkt92O9sS2ZjIT
VVpyFq+FS6gRRh6LmIfUrtvps3HeIaaJWzCfLjmpItw4jvydQcx92RtTjUTMjcOIe9vxdyI3GtEavZEbReFDWucBi/p+GBD30uba
+tqGM576khFeXtsgGXYZgEQKUEb8FjYTG58/EP8Rn6/xeReSXrL/z+EhdhubepEteDSK+GDQ8DPKq1DD/lPCtSrYs2zRtwyb9Lfw
qWfmEaTDA967LNHZEn7zkGyBQbSN+MecNiydbUw0+D7RhzjRWyS9mmKLioDw37lOAR4lukVVl/rpEGOgOEqcU4BfE90C6Z5XdAPR
ey2M2hLsBgCPX+4FUXIv1DUIUktLcJPTdB/8JGIF3t9r4kao8NWgYHKfr8F0ZPewyuecR2imcz4Xdm0e0XRIm0U4eqwo8GxGZijr
gdhPvrbzSe1O46sziC6j4jIe6CSrW8jrITkZPMjIaR9+M47Zh6LJY9o3pnPUuFeMadymJu6qxm8JVwWU+/yGgEMlXklvCviDss4v
Ar4lz8rIz5f064LeUuSSfkXQdxS5pF8U9ESRS3pd+qfo0ygreQ3KfsETyE9LG/nzR3LyTjbPBP8FmT+mBecszKGKso6d10dysh12
2fV+JyQo8VR/Pa9/AVHHQANLhTK8DEWLW1peQEs5N3X+vqdZz0H0DCq/dPB+GS7D319agG3GMRtVeFRpJKpLjYz/yvwlRL+Bv/7c
X/qOcr3a5MjR9fUsoh/d+JD2twkE5Sjl9ZCcgMH/8vUs5GczdbpcwAd3YpI9M8167k7bY7tPWK/XTlmvhRPq9aQ+dUGpX1BoR8Ce
Ipf0awJ+q8glfVHAx4r8sWL/QJEfqH3U0BdGGo8x23fLmr77X9NH9XWslomVu4tyelamHjm/mpc/g+irC7hQU9kJRe95UVczRaTo
VSnPRfmk8Ai/qFzSktHcRzmHnuJeS2tE1gmk97TNf23QL6aKyHTKv4bol7RWvSzyRjgj77v9xTw/W1eE1kr5fMzXwfx7cv49Of+e
nH9Pzr8n/+/fk/fQ8FX+v8Z/AWMEm+M=
"""
STREAM = """
eNqlVT1s01AQPidualURiqoIRaJD5ImhVG2pqogf0QkYKlEhEEilipz4pZg6duQ4baIoYu3IzsLIxMTI0JGBoTMTA+wdmTB37ydx
XtwSiSc937v77r3v7v2ckyRJrAJACagtwTUowAJYOMJmmGN7Eb+mtO+ZNEYYO9kt/BJm4fimxG7gZ2h7gcv69Wbo99pB175T3beP
2MA+WK3awlbnDoxDQztw2gxHQc/30aPlMd+tT9s6TuA63Xo86JDR7gVeM3SZjUjQa3cGY6AbR2Rss9hxndhB09BmAfp6wSHhz589
vFWzR6NJJNMh2E0vHth6EGOrFkbYeMOa8TxRUBqj1eqEJ5glCTIYvCDe3polGJuvoujPUvQzKFp+6GSSpICraE5es4xklFUjw0VY
7LUzTk4h21v7ve7Bv0hdJ+OUpDGDcpZucnRX0RzhNZ3lUVaNqIlEh2HkNR0/88RqMzcTXepqFn8Lm+gRRi6LmItay/G7bDQdEMvI
Wxr/73LSi3DiOPIavZjHMhzRG4mYE4cRj9b3GpETDWiNzsCJovCE1jlmUdcLA7Jubq+tr23Yo0ksKfD22gZhWGUABAqwiONXWEzK
2H/i+DP2U+z3QNSS8z9JgtWmTLWoLG3U8tgxafiCeAkqWH8KuFYRa1ZZ1i2jTP417NXUPJJ0eMBrlyUrm7DvJcQFBullHO9y3bCy
uPGiwSfhD7HwWyK/isZFj4DG37lPDj4I37zuS/W0jzlQHgVuycE34Zsj3xXNN5C118KsLWneAeD5q70gTe2FvgZJKmlibHId6ZKP
Mlfg9b0s/whFvhrkTI5VJS7+CGL/1L+iIv8HhOxKew4mLQ+Xt4om0/MMTQcNS/v3joWkfL4a6XyuT+eTNznXnlpAi3/FEPEXUlyl
DF65//yuUduRUvG+1OJV+rqUp9p67zT8TJt/puEXGn6h7aNlTONKV3mVNFzpKp/Hmj+1xZSuphe0OObF59Xvarqp7b81Pufps1Ln
8DRssyddPySpxln3J6+tv6BdtvtTUfx4IOTvt1JK3ZTXoCjl8g5c/Dpffo+rzSlfPILMjjEYYFx+/y+LX+2n02i6rCXeB+l/AX5y
y30=
"""

found = pd.read_feather(io.BytesIO(zlib.decompress(base64.b64decode(FILE))))
print(found.to_csv(), end="")
print([str(dtype) for dtype in found.dtypes], type(found["day"].iloc[0]).__name__)
again = pd.read_feather(io.BytesIO(zlib.decompress(base64.b64decode(STREAM))))
print(again.equals(found))

frame = found.reset_index().assign(many=pd.array([1, None] * 3, "Int64"))
for compression in (None, "lz4", "uncompressed"):
    frame.to_feather("out.feather", compression=compression)
    again = pd.read_feather("out.feather")
    print(again.equals(frame), (again.dtypes == frame.dtypes).all())
print(pd.read_feather("out.feather", columns=["n", "kind"]).astype(object).iloc[1].tolist())
for wrong in (b"ARROW1" * 9, b"FEA1" * 9, b"nothing"):
    try:
        pd.read_feather(io.BytesIO(wrong))
    except ValueError as error:
        print(error)
try:
    frame.to_feather("out.feather", compression="brotli")
except ValueError as error:
    print(error)
pd.read_feather("out.feather", dtype_backend="pyarrow")

# expect kind: "exception"
# expect hint has: ["Feather"]
# expect stdout: "key,city,n,x,when,day,kind\na,Rome,1,0.5,2020-01-01 12:00:00,2020-01-02,u\nb,Oslo,2,,2020-01-01 12:00:00,2020-01-02,v\nc,,3,1.5,2020-01-01 12:00:00,2020-01-02,u\nd,Rome,4,2.5,2020-01-01 12:00:00,2020-01-02,v\ne,Rome,5,3.5,2020-01-01 12:00:00,2020-01-02,u\nf,Oslo,1099511627776,4.5,2020-01-01 12:00:00,2020-01-02,v\n['str', 'int64', 'float64', 'datetime64[us]', 'object', 'category'] date\nTrue\nTrue True\nTrue True\nTrue True\n[2, 'v']\nnot an Arrow file: it does not end like one, and may be cut off\na Feather file of version 1, which cannot be read here: write it with version=2\nnot Arrow data: neither a Feather or Arrow file nor a stream\nFeather files cannot be compressed with 'brotli' here: take \"lz4\", \"zstd\" or \"uncompressed\"\n"
