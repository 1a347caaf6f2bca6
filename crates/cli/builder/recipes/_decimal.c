/* What decimal's source of CPython 3.13 uses of that version, and 3.15 does not have. */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <mpdecimal.h>
#include <string.h>

PyObject *_PyType_GetModuleByDef2(PyTypeObject *a, PyTypeObject *b, PyModuleDef *def) {
    PyObject *module = PyType_GetModuleByDef(a, def);
    if (module != NULL) return module;
    PyErr_Clear();
    return PyType_GetModuleByDef(b, def);
}

PyObject *_PyType_GetModuleByDef3(PyTypeObject *a, PyTypeObject *b, PyTypeObject *c,
                                  PyModuleDef *def) {
    PyObject *module = _PyType_GetModuleByDef2(a, b, def);
    if (module != NULL) return module;
    PyErr_Clear();
    return PyType_GetModuleByDef(c, def);
}

PyLongObject *_PyLong_FromDigits(int negative, Py_ssize_t count, digit *digits) {
    if (count == 0) return (PyLongObject *)PyLong_FromLong(0);
    void *to;
    PyLongWriter *writer = PyLongWriter_Create(negative, count, &to);
    if (writer == NULL) return NULL;
    memcpy(to, digits, count * sizeof *digits);
    return (PyLongObject *)PyLongWriter_Finish(writer);
}

/* What 3.15's `decimal` has, and 3.13's source does not. */

PyObject *decimal_getattr(PyObject *module, PyObject *name) {
    (void)module;
    if (!PyUnicode_Check(name) || PyUnicode_CompareWithASCIIString(name, "__version__") != 0)
        return PyErr_Format(PyExc_AttributeError, "module 'decimal' has no attribute %R", name);
    if (PyErr_WarnEx(PyExc_DeprecationWarning,
                     "'__version__' is deprecated and slated for removal in Python 3.20", 1) < 0)
        return NULL;
    return PyUnicode_FromString("1.70");
}

enum { MAX_BITS = MPD_IEEE_CONTEXT_MAX_BITS };
PyObject *decimal_ieee_context(PyObject *module, PyObject *arg) {
    long bits = PyLong_AsLong(arg);
    if (bits == -1 && PyErr_Occurred()) return NULL;
    if (bits <= 0 || bits > MAX_BITS || bits % 32 != 0)
        return PyErr_Format(PyExc_ValueError,
                            "argument must be a multiple of 32, with a maximum of %d", MAX_BITS);
    long limit = 3L << (bits / 16 + 3);
    PyObject *context = PyObject_GetAttrString(module, "Context"), *result = NULL;
    PyObject *values = Py_BuildValue("{s:l,s:l,s:l,s:s,s:i,s:[]}", "prec", 9 * (bits / 32) - 2,
                                     "Emax", limit, "Emin", 1 - limit, "rounding",
                                     "ROUND_HALF_EVEN", "clamp", 1, "traps");
    PyObject *none = PyTuple_New(0);
    if (context != NULL && values != NULL && none != NULL)
        result = PyObject_Call(context, none, values);
    Py_XDECREF(none);
    Py_XDECREF(values);
    Py_XDECREF(context);
    return result;
}

PyObject *decimal_from_number(PyObject *type, PyObject *number) {
    /* The constructor signals FloatOperation. */
    if (PyFloat_Check(number)) return PyObject_CallMethod(type, "from_float", "O", number);
    /* `_decimal` may have been imported again, with another Decimal. */
    PyTypeObject *decimal = (PyTypeObject *)type;
    while (decimal->tp_base != &PyBaseObject_Type) decimal = decimal->tp_base;
    if (PyLong_Check(number) || PyObject_TypeCheck(number, decimal))
        return PyObject_CallOneArg(type, number);
    return PyErr_Format(PyExc_TypeError, "Cannot convert %R to Decimal", number);
}
