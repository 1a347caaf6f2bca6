/* Functions of CPython's API that are not in the artifact because its linker found no caller.
 *
 * They are written with the functions that it has, and do what CPython documents for valid
 * arguments. The build hides those that the artifact turns out to have. */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include "internal/pycore_interp.h"
#include "internal/pycore_frame.h"

/* Functions that the headers define as macros or inline functions too. */
#undef Py_IncRef
#undef Py_DecRef
#undef Py_NewRef
#undef Py_XNewRef
#undef Py_Is
#undef Py_IsNone
#undef Py_IsTrue
#undef Py_IsFalse
#undef Py_TYPE
#undef Py_SIZE
#undef Py_REFCNT
#undef Py_IS_TYPE
#undef Py_SET_SIZE
#undef PyUnicode_DATA
#undef PyUnicode_KIND
#undef PyVectorcall_NARGS
#undef PySequence_Length
#undef PySequence_In
#undef PyObject_Length
#undef PyMapping_Size
#undef PyMapping_Length
#undef PyObject_DelAttrString
#undef PyCFunction_New
#undef PyCFunction_NewEx
#undef PyErr_BadInternalCall
#undef PySlice_GetIndicesEx
#undef PyUnstable_Long_IsCompact
#undef PyUnstable_Long_CompactValue
#undef PyMutex_IsLocked

PyObject *_PyEval_GetFrameLocals(void);

void Py_IncRef(PyObject *o) { Py_XINCREF(o); }
void Py_DecRef(PyObject *o) { Py_XDECREF(o); }
void _Py_IncRef(PyObject *o) { Py_INCREF(o); }
void _Py_DecRef(PyObject *o) { Py_DECREF(o); }
PyObject *Py_NewRef(PyObject *o) { Py_INCREF(o); return o; }
PyObject *Py_XNewRef(PyObject *o) { Py_XINCREF(o); return o; }
int Py_Is(PyObject *a, PyObject *b) { return a == b; }
int Py_IsNone(PyObject *o) { return o == Py_None; }
int Py_IsTrue(PyObject *o) { return o == Py_True; }
int Py_IsFalse(PyObject *o) { return o == Py_False; }
PyTypeObject *Py_TYPE(PyObject *o) { return o->ob_type; }
Py_ssize_t Py_SIZE(PyObject *o) { return ((PyVarObject *)o)->ob_size; }
Py_ssize_t Py_REFCNT(PyObject *o) { return (Py_ssize_t)o->ob_refcnt; }
int Py_IS_TYPE(PyObject *o, PyTypeObject *type) { return o->ob_type == type; }
void Py_SET_SIZE(PyVarObject *o, Py_ssize_t size) { o->ob_size = size; }
Py_ssize_t PyVectorcall_NARGS(size_t n) { return n & ~PY_VECTORCALL_ARGUMENTS_OFFSET; }
void _Py_SetRefcnt(PyObject *o, Py_ssize_t count) { Py_SET_REFCNT(o, count); }
void _Py_ResurrectReference(PyObject *o) { Py_SET_REFCNT(o, 1); }

/* Objects, sequences and mappings. */

Py_ssize_t PyObject_Length(PyObject *o) { return PyObject_Size(o); }
Py_ssize_t PySequence_Length(PyObject *o) { return PySequence_Size(o); }

Py_ssize_t PyMapping_Size(PyObject *o) {
    if (o == NULL) {
        PyErr_SetString(PyExc_SystemError, "null argument to internal routine");
        return -1;
    }
    PyMappingMethods *m = o->ob_type->tp_as_mapping;
    if (m != NULL && m->mp_length != NULL) return m->mp_length(o);
    PyErr_Format(PyExc_TypeError, "object of type '%.200s' has no len()", o->ob_type->tp_name);
    return -1;
}
Py_ssize_t PyMapping_Length(PyObject *o) { return PyMapping_Size(o); }

int PyObject_DelAttrString(PyObject *o, const char *name) {
    return PyObject_SetAttrString(o, name, NULL);
}

int PyObject_DelItemString(PyObject *o, const char *name) {
    PyObject *key = PyUnicode_FromString(name);
    if (key == NULL) return -1;
    int result = PyObject_DelItem(o, key);
    Py_DECREF(key);
    return result;
}

int PyObject_HasAttrStringWithError(PyObject *o, const char *name) {
    PyObject *value;
    int result = PyObject_GetOptionalAttrString(o, name, &value);
    Py_XDECREF(value);
    return result;
}

int PyMapping_HasKeyStringWithError(PyObject *o, const char *name) {
    PyObject *value;
    int result = PyMapping_GetOptionalItemString(o, name, &value);
    Py_XDECREF(value);
    return result;
}

int PyMapping_HasKeyWithError(PyObject *o, PyObject *key) {
    PyObject *value;
    int result = PyMapping_GetOptionalItem(o, key, &value);
    Py_XDECREF(value);
    return result;
}

static int without_error(int result) {
    if (result >= 0) return result;
    PyErr_WriteUnraisable(NULL);
    return 0;
}
int PyMapping_HasKeyString(PyObject *o, const char *name) {
    return without_error(PyMapping_HasKeyStringWithError(o, name));
}
int PyMapping_HasKey(PyObject *o, PyObject *key) {
    return without_error(PyMapping_HasKeyWithError(o, key));
}

int PySequence_In(PyObject *o, PyObject *value) { return PySequence_Contains(o, value); }

static int set_slice(PyObject *o, Py_ssize_t from, Py_ssize_t to, PyObject *value) {
    PyObject *start = PyLong_FromSsize_t(from), *stop = PyLong_FromSsize_t(to), *slice = NULL;
    if (start != NULL && stop != NULL) slice = PySlice_New(start, stop, NULL);
    Py_XDECREF(start);
    Py_XDECREF(stop);
    if (slice == NULL) return -1;
    int result = value ? PyObject_SetItem(o, slice, value) : PyObject_DelItem(o, slice);
    Py_DECREF(slice);
    return result;
}
int PySequence_SetSlice(PyObject *o, Py_ssize_t from, Py_ssize_t to, PyObject *value) {
    return set_slice(o, from, to, value);
}
int PySequence_DelSlice(PyObject *o, Py_ssize_t from, Py_ssize_t to) {
    return set_slice(o, from, to, NULL);
}

int PyAIter_Check(PyObject *o) {
    PyAsyncMethods *m = o->ob_type->tp_as_async;
    return m != NULL && m->am_anext != NULL;
}

int PyDict_MergeFromSeq2(PyObject *dict, PyObject *pairs, int override) {
    /* Of pairs with one key the last wins with `override`, and the first without. */
    PyObject *list = PySequence_List(pairs), *items = PyDict_New(), *done = NULL;
    int result = -1;
    if (list != NULL && items != NULL && (override || PyList_Reverse(list) == 0))
        done = PyObject_CallMethod(items, "update", "O", list);
    if (done != NULL) result = PyDict_Merge(dict, items, override);
    Py_XDECREF(done);
    Py_XDECREF(items);
    Py_XDECREF(list);
    return result;
}

/* Numbers. */

double PyFloat_GetMax(void) { return __DBL_MAX__; }
double PyFloat_GetMin(void) { return __DBL_MIN__; }
PyObject *PyLong_FromInt32(int32_t value) { return PyLong_FromLong(value); }
PyObject *PyLong_FromUInt64(uint64_t value) { return PyLong_FromUnsignedLongLong(value); }

int PyLong_AsInt32(PyObject *o, int32_t *value) {
    long result = PyLong_AsLong(o);
    if (result == -1 && PyErr_Occurred()) return -1;
    *value = result;
    return 0;
}

/* As CPython: takes __index__, and refuses negative numbers with ValueError. */
int PyLong_AsUInt64(PyObject *o, uint64_t *value) {
    Py_ssize_t size = PyLong_AsNativeBytes(
        o, value, sizeof *value,
        Py_ASNATIVEBYTES_NATIVE_ENDIAN | Py_ASNATIVEBYTES_ALLOW_INDEX
            | Py_ASNATIVEBYTES_REJECT_NEGATIVE | Py_ASNATIVEBYTES_UNSIGNED_BUFFER);
    if (size < 0) return -1;
    if ((size_t)size > sizeof *value) {
        PyErr_SetString(PyExc_OverflowError, "Python int too large to convert to C uint64_t");
        return -1;
    }
    return 0;
}

PyObject *PyLong_FromUnsignedNativeBytes(const void *bytes, size_t size, int flags) {
    int little = flags == -1 || (flags & 2) ? 1 : flags & 1;
    PyObject *data = PyBytes_FromStringAndSize(bytes, size);
    if (data == NULL) return NULL;
    PyObject *result = PyObject_CallMethod((PyObject *)&PyLong_Type, "from_bytes", "Os", data,
                                           little ? "little" : "big");
    Py_DECREF(data);
    return result;
}

unsigned long long PyLong_AsUnsignedLongLongMask(PyObject *o) {
    PyObject *number = PyNumber_Index(o);
    if (number == NULL) return (unsigned long long)-1;
    unsigned long long value = 0;
    Py_ssize_t size =
        PyLong_AsNativeBytes(number, &value, sizeof value, Py_ASNATIVEBYTES_NATIVE_ENDIAN);
    Py_DECREF(number);
    return size < 0 ? (unsigned long long)-1 : value;
}

static int sign(PyObject *o) {
    int result = 0;
    return PyLong_GetSign(o, &result) < 0 ? -2 : result;
}
int PyLong_IsPositive(PyObject *o) { int s = sign(o); return s == -2 ? -1 : s > 0; }
int PyLong_IsNegative(PyObject *o) { int s = sign(o); return s == -2 ? -1 : s < 0; }
int _PyLong_Sign(PyObject *o) { return sign(o); }
int PyUnstable_Long_IsCompact(const PyLongObject *o) { return _PyLong_IsCompact(o); }
Py_ssize_t PyUnstable_Long_CompactValue(const PyLongObject *o) { return _PyLong_CompactValue(o); }

/* Bytes and text. */

static PyObject *of_text(const char *method, PyObject *text, PyObject *a, PyObject *b) {
    PyObject *m = PyObject_GetAttrString((PyObject *)&PyUnicode_Type, method);
    if (m == NULL) return NULL;
    PyObject *result = PyObject_CallFunctionObjArgs(m, text, a, b, NULL);
    Py_DECREF(m);
    return result;
}

PyObject *PyUnicode_Translate(PyObject *text, PyObject *table, const char *errors) {
    (void)errors; /* CPython passes it on to code that only encodes. */
    return of_text("translate", text, table, NULL);
}

PyObject *PyUnicode_RSplit(PyObject *text, PyObject *separator, Py_ssize_t limit) {
    PyObject *n = PyLong_FromSsize_t(limit);
    if (n == NULL) return NULL;
    PyObject *result = of_text("rsplit", text, separator ? separator : Py_None, n);
    Py_DECREF(n);
    return result;
}

Py_ssize_t PyUnicode_Count(PyObject *text, PyObject *part, Py_ssize_t start, Py_ssize_t end) {
    PyObject *n =
        PyObject_CallMethod((PyObject *)&PyUnicode_Type, "count", "OOnn", text, part, start, end);
    if (n == NULL) return -1;
    Py_ssize_t result = PyLong_AsSsize_t(n);
    Py_DECREF(n);
    return result;
}

PyObject *PyUnicode_AsUTF16String(PyObject *o) {
    return PyUnicode_AsEncodedString(o, "utf-16", NULL);
}
PyObject *PyUnicode_AsUTF32String(PyObject *o) {
    return PyUnicode_AsEncodedString(o, "utf-32", NULL);
}
PyObject *PyUnicode_DecodeUTF7(const char *data, Py_ssize_t size, const char *errors) {
    return PyUnicode_Decode(data, size, "utf-7", errors);
}
PyObject *PyUnicode_DecodeUnicodeEscape(const char *data, Py_ssize_t size, const char *errors) {
    return PyUnicode_Decode(data, size, "unicode_escape", errors);
}
/* The guest's locale is UTF-8. */
PyObject *PyUnicode_DecodeLocaleAndSize(const char *data, Py_ssize_t size, const char *errors) {
    return PyUnicode_DecodeUTF8(data, size, errors);
}

void *PyUnicode_DATA(PyObject *o) {
    if (PyUnicode_IS_COMPACT_ASCII(o)) return (PyASCIIObject *)o + 1;
    if (PyUnicode_IS_COMPACT(o)) return (PyCompactUnicodeObject *)o + 1;
    return ((PyUnicodeObject *)o)->data.any;
}
int PyUnicode_KIND(PyObject *o) { return ((PyASCIIObject *)o)->state.kind; }

/* Data that `Py_UNICODE_ISSPACE` reads, and whose address in the artifact is not known. */
const unsigned char _Py_ascii_whitespace[128] = {
    [0x09] = 1, [0x0a] = 1, [0x0b] = 1, [0x0c] = 1, [0x0d] = 1,
    [0x1c] = 1, [0x1d] = 1, [0x1e] = 1, [0x1f] = 1, [0x20] = 1,
};

PyObject *PyByteArray_FromObject(PyObject *o) {
    return PyObject_CallOneArg((PyObject *)&PyByteArray_Type, o);
}
PyObject *PyBytes_Repr(PyObject *o, int smart) { (void)smart; return PyObject_Repr(o); }
void PyBytes_ConcatAndDel(PyObject **a, PyObject *b) { PyBytes_Concat(a, b); Py_XDECREF(b); }

int PyOS_mystricmp(const char *a, const char *b) {
    for (; *a && Py_TOLOWER(*a) == Py_TOLOWER(*b); a++, b++) {}
    return Py_TOLOWER(*a) - Py_TOLOWER(*b);
}

/* Buffers. */

void *PyBuffer_GetPointer(const Py_buffer *view, const Py_ssize_t *indices) {
    char *at = view->buf;
    for (int i = 0; i < view->ndim; i++) {
        at += view->strides[i] * indices[i];
        if (view->suboffsets != NULL && view->suboffsets[i] >= 0)
            at = *(char **)at + view->suboffsets[i];
    }
    return at;
}

void PyBuffer_FillContiguousStrides(int n, Py_ssize_t *shape, Py_ssize_t *strides, int size,
                                    char order) {
    Py_ssize_t step = size;
    for (int k = 0; k < n; k++) {
        int i = n == 1 || order == 'F' ? k : n - 1 - k;
        strides[i] = step;
        step *= shape[i];
    }
}

Py_ssize_t PyBuffer_SizeFromFormat(const char *format) {
    PyObject *module = PyImport_ImportModule("struct");
    if (module == NULL) return -1;
    PyObject *n = PyObject_CallMethod(module, "calcsize", "s", format);
    Py_DECREF(module);
    if (n == NULL) return -1;
    Py_ssize_t size = PyLong_AsSsize_t(n);
    Py_DECREF(n);
    return size;
}

/* A copy has the item format and shape of the object, in C order. */
PyObject *PyMemoryView_GetContiguous(PyObject *o, int access, char order) {
    PyObject *memory = PyMemoryView_FromObject(o);
    if (memory == NULL) return NULL;
    Py_buffer *view = PyMemoryView_GET_BUFFER(memory);
    const char *problem = NULL;
    int contiguous = PyBuffer_IsContiguous(view, order);
    if (access == PyBUF_WRITE && view->readonly)
        problem = "underlying buffer is not writable";
    else if (access == PyBUF_WRITE && !contiguous)
        problem = "writable contiguous buffer requested for a non-contiguous object.";
    else if (!contiguous && order == 'F' && view->ndim > 1)
        problem = "a copy in Fortran order is not supported";
    if (problem != NULL) {
        PyErr_SetString(PyExc_BufferError, problem);
        Py_DECREF(memory);
        return NULL;
    }
    if (contiguous) return memory;
    PyObject *data = PyObject_CallMethod(memory, "tobytes", NULL), *copy = NULL, *result = NULL;
    PyObject *format = PyObject_GetAttrString(memory, "format");
    PyObject *shape = PyObject_GetAttrString(memory, "shape");
    if (data != NULL && format != NULL && shape != NULL) copy = PyMemoryView_FromObject(data);
    if (copy != NULL) result = PyObject_CallMethod(copy, "cast", "OO", format, shape);
    Py_XDECREF(copy);
    Py_XDECREF(shape);
    Py_XDECREF(format);
    Py_XDECREF(data);
    Py_DECREF(memory);
    return result;
}

/* Functions, methods and code. */

PyObject *PyCFunction_New(PyMethodDef *method, PyObject *self) {
    return PyCMethod_New(method, self, NULL, NULL);
}
PyObject *PyCFunction_NewEx(PyMethodDef *method, PyObject *self, PyObject *module) {
    return PyCMethod_New(method, self, module, NULL);
}
PyObject *PyCFunction_GetSelf(PyObject *f) {
    if (!PyCFunction_Check(f)) { PyErr_BadInternalCall(); return NULL; }
    return PyCFunction_GET_SELF(f);
}
int PyCFunction_GetFlags(PyObject *f) {
    if (!PyCFunction_Check(f)) { PyErr_BadInternalCall(); return -1; }
    return PyCFunction_GET_FLAGS(f);
}
PyObject *PyMethod_Function(PyObject *m) {
    if (!PyMethod_Check(m)) { PyErr_BadInternalCall(); return NULL; }
    return PyMethod_GET_FUNCTION(m);
}
PyObject *PyMethod_Self(PyObject *m) {
    if (!PyMethod_Check(m)) { PyErr_BadInternalCall(); return NULL; }
    return PyMethod_GET_SELF(m);
}
#define FUNCTION_PART(name, part) \
    PyObject *PyFunction_Get##name(PyObject *f) { \
        if (!PyFunction_Check(f)) { PyErr_BadInternalCall(); return NULL; } \
        return ((PyFunctionObject *)f)->part; \
    }
FUNCTION_PART(Code, func_code)
FUNCTION_PART(Globals, func_globals)
FUNCTION_PART(Defaults, func_defaults)
FUNCTION_PART(KwDefaults, func_kwdefaults)
FUNCTION_PART(Closure, func_closure)
PyObject *PyCell_Get(PyObject *cell) {
    if (!PyCell_Check(cell)) { PyErr_BadInternalCall(); return NULL; }
    return Py_XNewRef(((PyCellObject *)cell)->ob_ref);
}
PyObject *PyCode_GetCode(PyCodeObject *code) {
    return PyObject_GetAttrString((PyObject *)code, "co_code");
}
PyObject *PyCode_GetVarnames(PyCodeObject *code) {
    return PyObject_GetAttrString((PyObject *)code, "co_varnames");
}
PyObject *PyCode_GetFreevars(PyCodeObject *code) {
    return PyObject_GetAttrString((PyObject *)code, "co_freevars");
}
PyObject *PyCode_GetCellvars(PyCodeObject *code) {
    return PyObject_GetAttrString((PyObject *)code, "co_cellvars");
}
const char *PyEval_GetFuncName(PyObject *f) {
    if (PyMethod_Check(f)) return PyEval_GetFuncName(PyMethod_GET_FUNCTION(f));
    if (PyFunction_Check(f)) return PyUnicode_AsUTF8(((PyFunctionObject *)f)->func_name);
    if (PyCFunction_Check(f)) return ((PyCFunctionObject *)f)->m_ml->ml_name;
    return f->ob_type->tp_name;
}
const char *PyEval_GetFuncDesc(PyObject *f) {
    if (PyMethod_Check(f) || PyFunction_Check(f) || PyCFunction_Check(f)) return "()";
    return " object";
}

/* Frames. */

PyObject *PyEval_GetFrameLocals(void) { return _PyEval_GetFrameLocals(); }
PyObject *PyEval_GetFrameGlobals(void) { return Py_XNewRef(PyEval_GetGlobals()); }
PyObject *PyFrame_GetLocals(PyFrameObject *frame) {
    return PyObject_GetAttrString((PyObject *)frame, "f_locals");
}
PyObject *PyFrame_GetGlobals(PyFrameObject *frame) {
    return PyObject_GetAttrString((PyObject *)frame, "f_globals");
}
PyObject *PyFrame_GetBuiltins(PyFrameObject *frame) {
    return PyObject_GetAttrString((PyObject *)frame, "f_builtins");
}
int PyFrame_FastToLocalsWithError(PyFrameObject *frame) { (void)frame; return 0; }
void PyFrame_FastToLocals(PyFrameObject *frame) { (void)frame; }
void PyFrame_LocalsToFast(PyFrameObject *frame, int clear) { (void)frame; (void)clear; }

/* Returns a borrowed reference. In a function the frame owns the dictionary, which is updated by
 * each call. */
PyObject *PyEval_GetLocals(void) {
    PyFrameObject *frame = PyEval_GetFrame();
    if (frame == NULL) {
        PyErr_SetString(PyExc_SystemError, "frame does not exist");
        return NULL;
    }
    PyObject *locals = PyFrame_GetLocals(frame);
    if (locals == NULL) return NULL;
    if (!PyFrameLocalsProxy_Check(locals)) {
        Py_DECREF(locals); /* the frame keeps it */
        return locals;
    }
    if (frame->f_locals_cache == NULL) frame->f_locals_cache = PyDict_New();
    PyObject *cache = frame->f_locals_cache;
    if (cache != NULL && PyDict_Update(cache, locals) < 0) cache = NULL;
    Py_DECREF(locals);
    return cache;
}

/* Types. */

PyObject *PyType_GetDict(PyTypeObject *type) { return Py_XNewRef(_PyType_GetDict(type)); }

int PyType_Freeze(PyTypeObject *type) {
    for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(type->tp_mro); i++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, i);
        if (PyType_HasFeature(base, Py_TPFLAGS_IMMUTABLETYPE)) continue;
        PyErr_Format(PyExc_TypeError, "Creating immutable type %s from mutable base %N",
                     type->tp_name, base);
        return -1;
    }
    type->tp_flags |= Py_TPFLAGS_IMMUTABLETYPE;
    PyType_Modified(type);
    return 0;
}

/* A type's slots, sorted for the function that takes a PyType_Spec. */
enum { MOST_SLOTS = 2 * _Py_slot_COUNT, MOST_NESTING = 5 };
struct type_parts {
    PyType_Spec spec;
    PyTypeObject *metaclass;
    PyObject *module;
    PyType_Slot slots[MOST_SLOTS + 1];
    int count;
};

static int add_slots(struct type_parts *to, const PySlot *slots, int nesting);

static int add_slot(struct type_parts *to, PySlot slot, int nesting) {
    switch (slot.sl_id) {
    case Py_tp_name: to->spec.name = slot.sl_ptr; return 0;
    case Py_tp_basicsize: to->spec.basicsize = slot.sl_size; return 0;
    case Py_tp_extra_basicsize: to->spec.basicsize = -slot.sl_size; return 0;
    case Py_tp_itemsize: to->spec.itemsize = slot.sl_size; return 0;
    case Py_tp_metaclass: to->metaclass = slot.sl_ptr; return 0;
    case Py_tp_module: to->module = slot.sl_ptr; return 0;
    case Py_tp_flags:
        to->spec.flags = slot.sl_flags & PySlot_INTPTR ? (uintptr_t)slot.sl_ptr : slot.sl_uint64;
        return 0;
    case Py_slot_subslots:
        return add_slots(to, slot.sl_ptr, nesting + 1);
    case Py_tp_slots:
        for (PyType_Slot *old = slot.sl_ptr; old != NULL && old->slot != 0; old++) {
            PySlot inner = {.sl_id = old->slot, .sl_flags = PySlot_INTPTR, .sl_ptr = old->pfunc};
            if (nesting == MOST_NESTING || add_slot(to, inner, nesting + 1) < 0) return -1;
        }
        return 0;
    }
    if (slot.sl_id >= _Py_slot_COUNT && slot.sl_flags & PySlot_OPTIONAL) return 0;
    if (to->count == MOST_SLOTS) return -1;
    to->slots[to->count++] = (PyType_Slot){slot.sl_id, slot.sl_ptr};
    return 0;
}

static int add_slots(struct type_parts *to, const PySlot *slots, int nesting) {
    if (nesting == MOST_NESTING) return -1;
    for (; slots != NULL && slots->sl_id != Py_slot_end; slots++)
        if (add_slot(to, *slots, nesting) < 0) return -1;
    return 0;
}

PyObject *PyType_FromSlots(PySlot *slots) {
    struct type_parts parts = {.spec = {.flags = Py_TPFLAGS_DEFAULT}};
    if (add_slots(&parts, slots, 0) < 0 || parts.spec.name == NULL) {
        PyErr_SetString(PyExc_SystemError, "invalid slots of a type");
        return NULL;
    }
    parts.spec.slots = parts.slots;
    return PyType_FromMetaclass(parts.metaclass, parts.module, &parts.spec, NULL);
}

static Py_ssize_t aligned(Py_ssize_t size) {
    return (size + ALIGNOF_MAX_ALIGN_T - 1) & ~(Py_ssize_t)(ALIGNOF_MAX_ALIGN_T - 1);
}
void *PyObject_GetTypeData(PyObject *o, PyTypeObject *type) {
    return (char *)o + aligned(type->tp_base->tp_basicsize);
}
Py_ssize_t PyType_GetTypeDataSize(PyTypeObject *type) {
    Py_ssize_t size = type->tp_basicsize - aligned(type->tp_base->tp_basicsize);
    return size < 0 ? 0 : size;
}
void *PyObject_GetItemData(PyObject *o) {
    if (!PyType_HasFeature(o->ob_type, Py_TPFLAGS_ITEMS_AT_END)) {
        PyErr_Format(PyExc_TypeError, "type '%s' does not have Py_TPFLAGS_ITEMS_AT_END",
                     o->ob_type->tp_name);
        return NULL;
    }
    return (char *)o + o->ob_type->tp_basicsize;
}
int PyType_SUPPORTS_WEAKREFS(PyTypeObject *type) { return type->tp_weaklistoffset != 0; }
PyObject **PyObject_GET_WEAKREFS_LISTPTR(PyObject *o) {
    return (PyObject **)((char *)o + o->ob_type->tp_weaklistoffset);
}

/* Modules. A module definition's index is its place in the interpreter's list. */

static int place_module(PyModuleDef *def, PyObject *module) {
    PyInterpreterState *interp = PyInterpreterState_Get();
    PyObject *list = interp->imports.modules_by_index;
    if (list == NULL) {
        list = interp->imports.modules_by_index = PyList_New(0);
        if (list == NULL) return -1;
    }
    while (PyList_GET_SIZE(list) <= def->m_base.m_index)
        if (PyList_Append(list, Py_None) < 0) return -1;
    return PyList_SetItem(list, def->m_base.m_index, Py_NewRef(module));
}

int PyState_AddModule(PyObject *module, PyModuleDef *def) {
    if (def == NULL) Py_FatalError("module definition is NULL");
    if (def->m_slots != NULL) {
        PyErr_SetString(PyExc_SystemError, "PyState_AddModule called on module with slots");
        return -1;
    }
    if (PyState_FindModule(def) == module) Py_FatalError("module already added");
    return place_module(def, module);
}

int PyState_RemoveModule(PyModuleDef *def) {
    if (def->m_slots != NULL) {
        PyErr_SetString(PyExc_SystemError, "PyState_RemoveModule called on module with slots");
        return -1;
    }
    if (PyState_FindModule(def) == NULL) Py_FatalError("module is not added");
    return place_module(def, Py_None);
}

const char *PyModule_GetFilename(PyObject *module) {
    PyObject *name = PyModule_GetFilenameObject(module);
    if (name == NULL) return NULL;
    const char *text = PyUnicode_AsUTF8(name);
    Py_DECREF(name); /* the module keeps it */
    return text;
}

/* The guest has one thread. */
int PyUnstable_Module_SetGIL(PyObject *module, void *gil) { (void)module; (void)gil; return 0; }
void PyCriticalSection_Begin(PyCriticalSection *c, PyObject *o) { (void)c; (void)o; }
void PyCriticalSection_End(PyCriticalSection *c) { (void)c; }
void PyCriticalSection2_Begin(PyCriticalSection2 *c, PyObject *a, PyObject *b) {
    (void)c; (void)a; (void)b;
}
void PyCriticalSection2_End(PyCriticalSection2 *c) { (void)c; }
int PyMutex_IsLocked(PyMutex *m) { return m->_bits & 1; }
Py_tss_t *PyThread_tss_alloc(void) {
    Py_tss_t *key = PyMem_RawMalloc(sizeof *key);
    if (key != NULL) *key = (Py_tss_t)Py_tss_NEEDS_INIT;
    return key;
}
int PyThread_tss_is_created(Py_tss_t *key) { return key->_is_initialized; }
void PyThread_tss_free(Py_tss_t *key) {
    if (key == NULL) return;
    PyThread_tss_delete(key);
    PyMem_RawFree(key);
}

PyObject *PyImport_ReloadModule(PyObject *module) {
    PyObject *importlib = PyImport_ImportModule("importlib");
    if (importlib == NULL) return NULL;
    PyObject *result = PyObject_CallMethod(importlib, "reload", "O", module);
    Py_DECREF(importlib);
    return result;
}

/* Exceptions. */

void PyErr_BadInternalCall(void) {
    PyErr_SetString(PyExc_SystemError, "bad argument to internal function");
}
PyObject *PyErr_FormatV(PyObject *type, const char *format, va_list arguments) {
    PyErr_Clear();
    PyObject *text = PyUnicode_FromFormatV(format, arguments);
    if (text != NULL) {
        PyErr_SetObject(type, text);
        Py_DECREF(text);
    }
    return NULL;
}
const char *PyExceptionClass_Name(PyObject *type) { return ((PyTypeObject *)type)->tp_name; }

static _PyErr_StackItem *handled(void) {
    _PyErr_StackItem *item = PyThreadState_Get()->exc_info;
    while ((item->exc_value == NULL || item->exc_value == Py_None) && item->previous_item != NULL)
        item = item->previous_item;
    return item;
}
PyObject *PyErr_GetHandledException(void) {
    PyObject *value = handled()->exc_value;
    return value == NULL || value == Py_None ? NULL : Py_NewRef(value);
}
void PyErr_GetExcInfo(PyObject **type, PyObject **value, PyObject **traceback) {
    PyObject *current = PyErr_GetHandledException();
    *value = current == NULL ? Py_NewRef(Py_None) : current;
    *type = current == NULL ? Py_NewRef(Py_None) : Py_NewRef((PyObject *)current->ob_type);
    *traceback = current == NULL ? NULL : PyException_GetTraceback(current);
    if (*traceback == NULL) *traceback = Py_NewRef(Py_None);
}
void PyErr_SetExcInfo(PyObject *type, PyObject *value, PyObject *traceback) {
    PyErr_SetHandledException(value);
    Py_XDECREF(value);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
}
void PyException_SetArgs(PyObject *o, PyObject *arguments) {
    Py_INCREF(arguments);
    Py_XSETREF(((PyBaseExceptionObject *)o)->args, arguments);
}

/* Contexts, capsules, weak references and slices. */

/* The layout of a capsule, which no header has. */
struct capsule {
    PyObject_HEAD
    void *pointer;
    const char *name;
    void *context;
    PyCapsule_Destructor destructor;
};
static int is_capsule(PyObject *o, const char *function) {
    if (o != NULL && PyCapsule_CheckExact(o) && ((struct capsule *)o)->pointer != NULL) return 1;
    PyErr_Format(PyExc_ValueError, "%s called with invalid PyCapsule object", function);
    return 0;
}
int PyCapsule_SetPointer(PyObject *o, void *pointer) {
    if (!is_capsule(o, "PyCapsule_SetPointer")) return -1;
    if (pointer == NULL) {
        PyErr_SetString(PyExc_ValueError, "PyCapsule_SetPointer called with null pointer");
        return -1;
    }
    ((struct capsule *)o)->pointer = pointer;
    return 0;
}
PyCapsule_Destructor PyCapsule_GetDestructor(PyObject *o) {
    return is_capsule(o, "PyCapsule_GetDestructor") ? ((struct capsule *)o)->destructor : NULL;
}

int PyWeakref_IsDead(PyObject *o) {
    PyObject *referent;
    int result = PyWeakref_GetRef(o, &referent);
    Py_XDECREF(referent);
    return result < 0 ? -1 : !result;
}
int PySlice_GetIndicesEx(PyObject *slice, Py_ssize_t length, Py_ssize_t *start, Py_ssize_t *stop,
                         Py_ssize_t *step, Py_ssize_t *count) {
    if (PySlice_Unpack(slice, start, stop, step) < 0) return -1;
    *count = PySlice_AdjustIndices(length, start, stop, *step);
    return 0;
}

/* Running code. */

PyObject *PyRun_StringFlags(const char *, int, PyObject *, PyObject *, PyCompilerFlags *);
#undef PyRun_String
PyObject *PyRun_String(const char *text, int start, PyObject *globals, PyObject *locals) {
    return PyRun_StringFlags(text, start, globals, locals, NULL);
}

#undef Py_CompileString
PyObject *Py_CompileString(const char *text, const char *file, int start) {
    const char *mode = start == Py_eval_input ? "eval" : start == Py_file_input ? "exec" : "single";
    PyObject *builtins = PyImport_ImportModule("builtins");
    if (builtins == NULL) return NULL;
    PyObject *code = PyObject_CallMethod(builtins, "compile", "sssii", text, file, mode, 0, 1);
    Py_DECREF(builtins);
    return code;
}
