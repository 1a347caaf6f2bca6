/* The tag of C++ exceptions. It is the extension's own: an exception is caught where it was
 * compiled, and code of the artifact never sees it as one of its own. */
__asm__(".globl __cpp_exception\n.tagtype __cpp_exception i32\n__cpp_exception:\n");
