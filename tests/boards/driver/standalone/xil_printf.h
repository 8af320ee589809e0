/* Output of the standalone library, as its documentation has it. */
#include "xil_types.h"
void xil_printf(const char8 *format, ...);
