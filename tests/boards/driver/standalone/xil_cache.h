/* Data cache of the standalone library, as its documentation has it. */
#include "xil_types.h"
void Xil_DCacheFlushRange(INTPTR address, INTPTR length);
void Xil_DCacheInvalidateRange(INTPTR address, INTPTR length);
