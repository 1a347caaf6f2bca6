//! Converts Python objects to values. Objects of the caller without a typed form raise `TypeError`.

use belljar::value::{
    Array, BigInt, Column, Data, DataFrame, Dtype, Index, Order, Series, Storage, Value,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyList, PySet,
    PyString, PyTuple,
};

use crate::buffer::Buffer;
use crate::json;

/// Maximum nesting depth of containers; the engine accepts 32.
const MAX_DEPTH: usize = 40;

/// Converts an object to a value that a guest accepts.
pub(crate) fn from_py(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    let value = value_of(object, MAX_DEPTH)?;
    value.check().map_err(|error| PyTypeError::new_err(error.to_string()))?;
    Ok(value)
}

fn value_of(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    // The most common types, and those whose subclasses may belong to a library.
    if object.is_none() {
        return Ok(Value::None);
    }
    if let Ok(is) = object.cast_exact::<PyBool>() {
        return Ok(Value::Bool(is.is_true()));
    }
    if let Ok(number) = object.cast_exact::<PyInt>() {
        return integer(number);
    }
    if let Ok(number) = object.cast_exact::<PyFloat>() {
        return Ok(Value::Float(number.value()));
    }
    if let Ok(text) = object.cast_exact::<PyString>() {
        return string(text);
    }
    let is_built_in = object.is_exact_instance_of::<PyList>()
        || object.is_exact_instance_of::<PyDict>()
        || object.is_exact_instance_of::<PyTuple>();
    if !is_built_in {
        let encoded = encode(object)?;
        if !encoded.is_none() {
            let parts = encoded.cast_into::<PyDict>()?;
            return tagged(&parts, deeper(depth)?);
        }
    }
    built_in(object, depth)
}

/// Converts built-in types and their subclasses.
fn built_in(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    if let Ok(is) = object.cast::<PyBool>() {
        return Ok(Value::Bool(is.is_true()));
    }
    if let Ok(number) = object.cast::<PyInt>() {
        return integer(number);
    }
    if let Ok(number) = object.cast::<PyFloat>() {
        return Ok(Value::Float(number.value()));
    }
    if let Ok(number) = object.cast::<PyComplex>() {
        return Ok(Value::Complex(number.real(), number.imag()));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return string(text);
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Value::Bytes(bytes.as_bytes().to_vec()));
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok(Value::Bytes(bytes.to_vec()));
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        let depth = deeper(depth)?;
        let pairs =
            dict.iter().map(|(key, value)| Ok((value_of(&key, depth)?, value_of(&value, depth)?)));
        return Ok(Value::Dict(pairs.collect::<PyResult<_>>()?));
    }
    if object.is_instance_of::<PyList>() {
        return Ok(Value::List(items(object, depth)?));
    }
    if object.is_instance_of::<PyTuple>() {
        return Ok(Value::Tuple(items(object, depth)?));
    }
    if object.is_instance_of::<PySet>() {
        return Ok(Value::Set(items(object, depth)?));
    }
    if object.is_instance_of::<PyFrozenSet>() {
        return Ok(Value::FrozenSet(items(object, depth)?));
    }
    let class = object.get_type().fully_qualified_name()?;
    Err(PyTypeError::new_err(format!("an object of class {class} has no typed form")))
}

fn deeper(depth: usize) -> PyResult<usize> {
    let too_deep = || PyValueError::new_err("it is nested too deep, or contains itself");
    depth.checked_sub(1).ok_or_else(too_deep)
}

fn items(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Vec<Value>> {
    let depth = deeper(depth)?;
    object.try_iter()?.map(|item| value_of(&item?, depth)).collect()
}

fn integer(number: &Bound<'_, PyInt>) -> PyResult<Value> {
    if let Ok(number) = number.extract::<i64>() {
        return Ok(Value::Int(number));
    }
    let negative = number.lt(0)?;
    let positive = number.abs()?;
    let bits: usize = positive.call_method0("bit_length")?.extract()?;
    let bytes = positive.call_method1("to_bytes", (bits.div_ceil(8), "big"))?;
    Ok(Value::BigInt(BigInt::new(negative, bytes.cast::<PyBytes>()?.as_bytes())))
}

fn string(text: &Bound<'_, PyString>) -> PyResult<Value> {
    Ok(Value::Str(text.to_str()?.to_owned()))
}

/// Converts an object with `belljar._values`; `None` if it is not supported.
fn encode<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static ENCODE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    ENCODE.import(object.py(), "belljar._values", "encode")?.call1((object,))
}

fn part<'py>(parts: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    parts.get_item(name)?.ok_or_else(|| PyValueError::new_err(format!("{name} is missing")))
}

fn tagged(parts: &Bound<'_, PyDict>, depth: usize) -> PyResult<Value> {
    let tag: String = part(parts, "$")?.extract()?;
    Ok(match tag.as_str() {
        "bytes" => Value::Bytes(part(parts, "data")?.extract::<Vec<u8>>()?),
        "array" => Value::Array(Box::new(array(parts, depth)?)),
        "scalar" => {
            let held = value_of(&part(parts, "value")?, depth)?;
            Value::Scalar(dtype(&part(parts, "dtype")?)?, Box::new(held))
        }
        "index" => Value::Index(Box::new(index(parts, depth)?)),
        "series" => Value::Series(Box::new(series(parts, depth)?)),
        "dataframe" => Value::DataFrame(Box::new(frame(parts, depth)?)),
        "categorical" => {
            let held = column(part(parts, "values")?.cast()?, depth)?;
            Value::Categorical(Box::new(held))
        }
        _ => serde_json::from_value(json::from_py(parts)?)
            .map_err(|error| PyValueError::new_err(error.to_string()))?,
    })
}

fn dtype(object: &Bound<'_, PyAny>) -> PyResult<Dtype> {
    match object.extract::<String>() {
        Ok(text) => Ok(Dtype::Plain(text)),
        Err(_) => Ok(Dtype::Record(object.extract()?)),
    }
}

fn array(parts: &Bound<'_, PyDict>, depth: usize) -> PyResult<Array> {
    let data = match parts.get_item("items")? {
        Some(held) => Data::Items(items(&held, depth)?),
        None => Data::Bytes(part(parts, "data")?.cast::<Buffer>()?.get().take()?),
    };
    let order: String = part(parts, "order")?.extract()?;
    Ok(Array {
        dtype: dtype(&part(parts, "dtype")?)?,
        shape: part(parts, "shape")?.extract()?,
        order: if order == "F" { Order::F } else { Order::C },
        data,
    })
}

fn inner<'py>(parts: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyDict>> {
    Ok(part(parts, name)?.cast_into()?)
}

fn column(parts: &Bound<'_, PyDict>, depth: usize) -> PyResult<Column> {
    let storage = if let Some(text) = parts.get_item("text")? {
        let strings: Vec<Option<String>> = text.extract()?;
        Storage::Text(strings.into_iter().collect())
    } else if let Some(codes) = parts.get_item("codes")? {
        let categories = index(&inner(parts, "categories")?, depth)?;
        let ordered = part(parts, "ordered")?.is_truthy()?;
        Storage::Categories(array(codes.cast()?, depth)?, Box::new(categories), ordered)
    } else {
        let values = array(&inner(parts, "values")?, depth)?;
        match parts.get_item("mask")? {
            Some(mask) => Storage::Masked(values, array(mask.cast()?, depth)?),
            None => Storage::Array(values),
        }
    };
    let mut column = Column::new(part(parts, "dtype")?.extract::<String>()?, Array::of_ints(&[]));
    column.storage = storage;
    Ok(column)
}

fn index(parts: &Bound<'_, PyDict>, depth: usize) -> PyResult<Index> {
    let name = || value_of(&part(parts, "name")?, depth);
    if let Some(range) = parts.get_item("range")? {
        let bounds: (i64, i64, i64) = range.extract()?;
        return Ok(Index::Range {
            start: bounds.0,
            stop: bounds.1,
            step: bounds.2,
            name: name()?,
        });
    }
    if let Some(labels) = parts.get_item("labels")? {
        return Ok(Index::Labels {
            labels: column(labels.cast()?, depth)?,
            name: name()?,
        });
    }
    let each = |name: &str| -> PyResult<Vec<Bound<'_, PyAny>>> {
        part(parts, name)?.try_iter()?.collect()
    };
    let levels = each("levels")?;
    let codes = each("codes")?;
    Ok(Index::Multi {
        levels: levels.iter().map(|level| index(level.cast()?, depth)).collect::<PyResult<_>>()?,
        codes: codes.iter().map(|codes| array(codes.cast()?, depth)).collect::<PyResult<_>>()?,
        names: items(&part(parts, "names")?, depth)?,
    })
}

fn series(parts: &Bound<'_, PyDict>, depth: usize) -> PyResult<Series> {
    let values = column(&inner(parts, "values")?, depth)?;
    let mut series = Series::new(index(&inner(parts, "index")?, depth)?, values);
    series.name = value_of(&part(parts, "name")?, depth)?;
    Ok(series)
}

fn frame(parts: &Bound<'_, PyDict>, depth: usize) -> PyResult<DataFrame> {
    let data: Vec<Bound<'_, PyAny>> = part(parts, "data")?.try_iter()?.collect::<PyResult<_>>()?;
    Ok(DataFrame {
        columns: index(&inner(parts, "columns")?, depth)?,
        index: index(&inner(parts, "index")?, depth)?,
        data: data.iter().map(|held| column(held.cast()?, depth)).collect::<PyResult<_>>()?,
    })
}
