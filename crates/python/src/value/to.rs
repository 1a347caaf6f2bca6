//! Converts values to Python objects. Values come from a guest: those that cannot be converted
//! become `Opaque`, and nothing raises.

use std::collections::HashMap;

use belljar::value::{
    Array, BigInt, Column, Data, DataFrame, Dtype, Index, Order, Series, Storage, Value,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet, PyString,
    PyTuple,
};

use crate::buffer::Buffer;
use crate::error::is_exception;
use crate::json;

/// Maximum number of keys with the same hash in a container. A guest could create more to make the
/// host's dictionary take hours.
const MAX_COLLISIONS: u32 = 64;

/// Converts a value to an object. A value that Python rejects becomes an `Opaque` with the reason.
pub(crate) fn to_py(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    match object(py, value) {
        Err(error) if is_exception(py, &error) => {
            let parts = PyDict::new(py);
            parts.set_item("$", "opaque")?;
            parts.set_item("class", "")?;
            parts.set_item("repr", "")?;
            parts.set_item("reason", format!("invalid: {error}"))?;
            decode(parts)
        }
        made => made,
    }
}

fn object(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::None => py.None().into_bound(py),
        Value::Bool(is) => PyBool::new(py, is).to_owned().into_any(),
        Value::Int(number) => number.into_pyobject(py)?.into_any(),
        Value::BigInt(number) => big(py, &number)?,
        Value::Float(number) => PyFloat::new(py, number).into_any(),
        Value::Complex(real, imaginary) => PyComplex::from_doubles(py, real, imaginary).into_any(),
        Value::Str(text) => PyString::new(py, &text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
        Value::List(items) => list(py, items)?.into_any(),
        Value::Tuple(items) => list(py, items)?.to_tuple().into_any(),
        Value::Set(items) => PySet::new(py, &keys(py, items)?)?.into_any(),
        Value::FrozenSet(items) => PyFrozenSet::new(py, &keys(py, items)?)?.into_any(),
        Value::Dict(pairs) => {
            let (names, values): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let dict = PyDict::new(py);
            for (key, value) in keys(py, names)?.iter().zip(values) {
                dict.set_item(key, object(py, value)?)?;
            }
            dict.into_any()
        }
        Value::Array(held) => array(py, *held)?,
        Value::Scalar(dtype, held) => {
            let parts = tagged(py, "scalar")?;
            parts.set_item("dtype", dtype_of(py, &dtype)?)?;
            parts.set_item("value", object(py, *held)?)?;
            decode(parts)?
        }
        Value::Index(held) => index(py, *held)?,
        Value::Series(held) => series(py, *held)?,
        Value::DataFrame(held) => frame(py, *held)?,
        Value::Categorical(held) => {
            let parts = tagged(py, "categorical")?;
            parts.set_item("values", column(py, *held)?)?;
            decode(parts)?
        }
        // The others are small, and converted via JSON.
        other => {
            let text = serde_json::to_value(&other)
                .map_err(|error| PyValueError::new_err(error.to_string()))?;
            decode(json::to_py(py, &text)?.cast_into()?)?
        }
    })
}

fn decode(parts: Bound<'_, PyDict>) -> PyResult<Bound<'_, PyAny>> {
    static DECODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    DECODE.import(parts.py(), "belljar._values", "decode")?.call1((parts,))
}

fn tagged<'py>(py: Python<'py>, tag: &str) -> PyResult<Bound<'py, PyDict>> {
    let parts = PyDict::new(py);
    parts.set_item("$", tag)?;
    Ok(parts)
}

fn big<'py>(py: Python<'py>, number: &BigInt) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyBytes::new(py, number.magnitude());
    let positive = py.get_type::<PyInt>().call_method1("from_bytes", (bytes, "big"))?;
    if number.is_negative() {
        positive.neg()
    } else {
        Ok(positive)
    }
}

fn list(py: Python<'_>, items: Vec<Value>) -> PyResult<Bound<'_, PyList>> {
    let list = PyList::empty(py);
    for item in items {
        list.append(object(py, item)?)?;
    }
    Ok(list)
}

/// The keys of a dictionary, or the members of a set.
fn keys(py: Python<'_>, items: Vec<Value>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    let is_many = items.len() > MAX_COLLISIONS as usize;
    let mut seen: HashMap<isize, u32> = HashMap::new();
    let mut keys = Vec::with_capacity(items.len());
    for item in items {
        // A guest cannot predict hashes of strings.
        let is_guessable = is_many && !matches!(item, Value::Str(_) | Value::Bytes(_));
        let key = object(py, item)?;
        if is_guessable {
            let count = seen.entry(key.hash()?).or_default();
            *count += 1;
            if *count > MAX_COLLISIONS {
                return Err(PyValueError::new_err("too many keys of the same hash"));
            }
        }
        keys.push(key);
    }
    Ok(keys)
}

fn dtype_of<'py>(py: Python<'py>, dtype: &Dtype) -> PyResult<Bound<'py, PyAny>> {
    match dtype {
        Dtype::Plain(text) => Ok(PyString::new(py, text).into_any()),
        Dtype::Record(fields) => {
            let fields = fields.iter().map(|(name, text)| PyTuple::new(py, [name, text]));
            let fields = fields.collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, fields)?.into_any())
        }
        _ => Err(PyValueError::new_err("an array of a type that is not known")),
    }
}

fn array(py: Python<'_>, held: Array) -> PyResult<Bound<'_, PyAny>> {
    let parts = tagged(py, "array")?;
    parts.set_item("dtype", dtype_of(py, &held.dtype)?)?;
    parts.set_item("shape", PyTuple::new(py, &held.shape)?)?;
    parts.set_item("order", if held.order == Order::F { "F" } else { "C" })?;
    match held.data {
        Data::Bytes(bytes) => parts.set_item("data", Bound::new(py, Buffer::of(bytes))?)?,
        Data::Items(items) => parts.set_item("items", list(py, items)?)?,
        _ => return Err(PyValueError::new_err("an array of a kind that is not known")),
    }
    decode(parts)
}

fn column(py: Python<'_>, held: Column) -> PyResult<Bound<'_, PyDict>> {
    let parts = PyDict::new(py);
    parts.set_item("dtype", held.dtype)?;
    match held.storage {
        Storage::Array(values) => parts.set_item("values", array(py, values)?)?,
        Storage::Masked(values, mask) => {
            parts.set_item("values", array(py, values)?)?;
            parts.set_item("mask", array(py, mask)?)?;
        }
        Storage::Text(text) => {
            let strings = PyList::empty(py);
            for string in text.iter() {
                strings.append(string)?;
            }
            parts.set_item("text", strings)?;
        }
        Storage::Categories(codes, categories, ordered) => {
            parts.set_item("codes", array(py, codes)?)?;
            parts.set_item("categories", index(py, *categories)?)?;
            parts.set_item("ordered", ordered)?;
        }
        _ => return Err(PyValueError::new_err("a column of a kind that is not known")),
    }
    Ok(parts)
}

fn index(py: Python<'_>, held: Index) -> PyResult<Bound<'_, PyAny>> {
    let parts = tagged(py, "index")?;
    match held {
        Index::Range {
            start,
            stop,
            step,
            name,
        } => {
            parts.set_item("range", (start, stop, step))?;
            parts.set_item("name", object(py, name)?)?;
        }
        Index::Labels { labels, name } => {
            parts.set_item("labels", column(py, labels)?)?;
            parts.set_item("name", object(py, name)?)?;
        }
        Index::Multi {
            levels,
            codes,
            names,
        } => {
            let levels = levels.into_iter().map(|level| index(py, level));
            parts.set_item("levels", levels.collect::<PyResult<Vec<_>>>()?)?;
            let codes = codes.into_iter().map(|codes| array(py, codes));
            parts.set_item("codes", codes.collect::<PyResult<Vec<_>>>()?)?;
            parts.set_item("names", list(py, names)?)?;
        }
        _ => return Err(PyValueError::new_err("an index of a kind that is not known")),
    }
    decode(parts)
}

fn series(py: Python<'_>, held: Series) -> PyResult<Bound<'_, PyAny>> {
    let parts = tagged(py, "series")?;
    parts.set_item("name", object(py, held.name)?)?;
    parts.set_item("index", index(py, held.index)?)?;
    parts.set_item("values", column(py, held.values)?)?;
    decode(parts)
}

fn frame(py: Python<'_>, held: DataFrame) -> PyResult<Bound<'_, PyAny>> {
    let parts = tagged(py, "dataframe")?;
    parts.set_item("columns", index(py, held.columns)?)?;
    parts.set_item("index", index(py, held.index)?)?;
    let data = held.data.into_iter().map(|held| column(py, held));
    parts.set_item("data", data.collect::<PyResult<Vec<_>>>()?)?;
    decode(parts)
}
