/* WASI's `random_get`, for Rust's library, which imports it from the host. An extension gets the
 * artifact's random numbers instead: `ld` gives this function the name of the import's symbol. */
#include <errno.h>
#include <stddef.h>

int __getentropy(void *, size_t);

int belljar_random_get(char *to, size_t size) {
    while (size > 0) {
        size_t part = size < 256 ? size : 256;
        if (__getentropy(to, part) != 0) return EIO;
        to += part;
        size -= part;
    }
    return 0;
}
