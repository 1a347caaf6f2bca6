/* setjmp and longjmp as the compiler lowers them, with a tag of the extension's own: a jump never
 * leaves the extension for a frame of the artifact. */
#include <stdint.h>
struct buffer {
    void *invocation;
    uint32_t label;
    struct { void *buffer; int value; } thrown;
};
__asm__(".globl __c_longjmp\n.tagtype __c_longjmp i32\n__c_longjmp:\n");
void __wasm_setjmp(void *at, uint32_t label, void *invocation) {
    struct buffer *b = at;
    b->invocation = invocation;
    b->label = label;
}
uint32_t __wasm_setjmp_test(void *at, void *invocation) {
    struct buffer *b = at;
    return b->invocation == invocation ? b->label : 0;
}
void __wasm_longjmp(void *at, int value) {
    struct buffer *b = at;
    b->thrown.buffer = at;
    b->thrown.value = value ? value : 1;
    __builtin_wasm_throw(1, &b->thrown);
}
