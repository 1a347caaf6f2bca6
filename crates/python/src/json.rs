//! Converts between JSON and Python objects.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use serde_json::{Map, Number, Value};

/// Maximum nesting depth, in both directions.
const MAX_DEPTH: usize = 128;

pub(crate) fn to_py<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(is) => PyBool::new(py, *is).to_owned().into_any(),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (None, Some(number)) => number.into_pyobject(py)?.into_any(),
            _ => PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any(),
        },
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(to_py(py, item)?)?;
            }
            list.into_any()
        }
        Value::Object(map) => {
            let dict = PyDict::new(py);
            for (key, value) in map {
                dict.set_item(key, to_py(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

pub(crate) fn from_py(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    within(object, MAX_DEPTH)
}

fn within(object: &Bound<'_, PyAny>, depth: usize) -> PyResult<Value> {
    let deeper = || {
        depth
            .checked_sub(1)
            .ok_or_else(|| PyValueError::new_err("it is nested too deeply for JSON"))
    };
    if object.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(is) = object.cast::<PyBool>() {
        return Ok(Value::Bool(is.is_true()));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Value::String(text.to_str()?.to_owned()));
    }
    if object.is_instance_of::<PyInt>() {
        return match object.extract::<i64>() {
            Ok(number) => Ok(number.into()),
            Err(_) => Ok(object.extract::<u64>()?.into()),
        };
    }
    if let Ok(number) = object.cast::<PyFloat>() {
        let number = Number::from_f64(number.value());
        let number = number.ok_or_else(|| PyValueError::new_err("JSON has no NaN or infinity"))?;
        return Ok(Value::Number(number));
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        let depth = deeper()?;
        let mut map = Map::with_capacity(dict.len());
        for (key, value) in dict {
            map.insert(key.extract()?, within(&value, depth)?);
        }
        return Ok(Value::Object(map));
    }
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let depth = deeper()?;
        let items = object.try_iter()?.map(|item| within(&item?, depth));
        return Ok(Value::Array(items.collect::<PyResult<_>>()?));
    }
    let name = object.get_type().name()?;
    Err(PyTypeError::new_err(format!("JSON has no form for an object of type {name}")))
}
