"""Tells the host the addresses of objects that extensions refer to by name.

CPython's headers declare these objects as data. Types and singletons are their own address; an
exception is a variable that holds one.
"""


def _tell():
    import builtins
    import collections
    import contextvars
    import json
    import pickle
    import sys
    import types
    import weakref

    import _host

    class _Sequence:
        def __getitem__(self, index):
            return index

    objects = {
        "_Py_NoneStruct": None,
        "_Py_TrueStruct": True,
        "_Py_FalseStruct": False,
        "_Py_EllipsisObject": ...,
        "_Py_NotImplementedStruct": NotImplemented,
        "PyBaseObject_Type": object,
        "PyType_Type": type,
        "PyBool_Type": bool,
        "PyLong_Type": int,
        "PyFloat_Type": float,
        "PyComplex_Type": complex,
        "PyUnicode_Type": str,
        "PyBytes_Type": bytes,
        "PyByteArray_Type": bytearray,
        "PyTuple_Type": tuple,
        "PyList_Type": list,
        "PyDict_Type": dict,
        "PySet_Type": set,
        "PyFrozenSet_Type": frozenset,
        "PySlice_Type": slice,
        "PyRange_Type": range,
        "PyMemoryView_Type": memoryview,
        "PyProperty_Type": property,
        "PySuper_Type": super,
        "PyStaticMethod_Type": staticmethod,
        "PyClassMethod_Type": classmethod,
        "PyModule_Type": types.ModuleType,
        "PyCFunction_Type": type(len),
        "PyFunction_Type": types.FunctionType,
        "PyMethod_Type": types.MethodType,
        "PyMethodDescr_Type": type(str.join),
        "PyWrapperDescr_Type": type(object.__init__),
        "PyClassMethodDescr_Type": type(dict.__dict__["fromkeys"]),
        "PyGetSetDescr_Type": types.GetSetDescriptorType,
        "PyMemberDescr_Type": types.MemberDescriptorType,
        "_PyMethodWrapper_Type": type("".__add__),
        "PyDictProxy_Type": types.MappingProxyType,
        "PyDictKeys_Type": type({}.keys()),
        "PyDictValues_Type": type({}.values()),
        "PyDictItems_Type": type({}.items()),
        "PyDictIterKey_Type": type(iter({})),
        "PyDictIterValue_Type": type(iter({}.values())),
        "PyDictIterItem_Type": type(iter({}.items())),
        "PyDictRevIterKey_Type": type(reversed({})),
        "PyListIter_Type": type(iter([])),
        "PyListRevIter_Type": type(reversed([])),
        "PyTupleIter_Type": type(iter(())),
        "PySetIter_Type": type(iter(set())),
        "PyBytesIter_Type": type(iter(b"")),
        "PyByteArrayIter_Type": type(iter(bytearray())),
        "PyRangeIter_Type": type(iter(range(1))),
        "PyLongRangeIter_Type": type(iter(range(1 << 70))),
        "PyUnicodeIter_Type": type(iter("\u1234")),
        "PySeqIter_Type": type(iter(_Sequence())),
        "PyCallIter_Type": type(iter(int, 1)),
        "PyEnum_Type": enumerate,
        "PyReversed_Type": reversed,
        "PyMap_Type": map,
        "PyFilter_Type": filter,
        "PyZip_Type": zip,
        "PyTraceBack_Type": types.TracebackType,
        "PyFrame_Type": types.FrameType,
        "PyFrameLocalsProxy_Type": type(sys._getframe().f_locals),
        "PyCode_Type": types.CodeType,
        "PyCell_Type": types.CellType,
        "PyGen_Type": types.GeneratorType,
        "PyCoro_Type": types.CoroutineType,
        "PyAsyncGen_Type": types.AsyncGeneratorType,
        "PyCapsule_Type": types.CapsuleType,
        "_PyWeakref_RefType": weakref.ref,
        "_PyWeakref_ProxyType": weakref.ProxyType,
        "_PyWeakref_CallableProxyType": weakref.CallableProxyType,
        "Py_GenericAliasType": types.GenericAlias,
        "_PyUnion_Type": types.UnionType,
        "PyODict_Type": collections.OrderedDict,
        "PyPickleBuffer_Type": pickle.PickleBuffer,
        "PyContext_Type": contextvars.Context,
        "PyContextVar_Type": contextvars.ContextVar,
        "PyContextToken_Type": contextvars.Token,
        "_PyNamespace_Type": types.SimpleNamespace,
        "PyEllipsis_Type": type(...),
        "_PyNone_Type": type(None),
        "_PyNotImplemented_Type": type(NotImplemented),
    }
    unnamed = {kind.__name__: kind for kind in object.__subclasses__()}
    for name, kind in [
        ("PyModuleDef_Type", "moduledef"),
        ("PyInstanceMethod_Type", "instancemethod"),
        ("PyFrozenDict_Type", "frozendict"),
    ]:
        if kind in unnamed:
            objects[name] = unnamed[kind]
    for kind in type(len).__subclasses__():
        if kind.__name__ == "builtin_method":
            objects["PyCMethod_Type"] = kind
    words = {
        f"PyExc_{name}": id(value)
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
    words["Py_Version"] = sys.hexversion
    addresses = {name: id(value) for name, value in objects.items()}
    _host.call(b"g" + json.dumps({"addresses": addresses, "words": words}).encode())


try:
    _tell()
finally:
    del _tell
