/* Types of the standalone library, as its documentation has them. */
#ifndef XIL_TYPES_H
#define XIL_TYPES_H
#include <stdint.h>
typedef intptr_t INTPTR;
typedef uintptr_t UINTPTR;
typedef char char8;
#endif
