/* Clock of the standalone library, as its documentation has it. */
#ifndef XTIME_L_H
#define XTIME_L_H
#include "xil_types.h"
#include <stdint.h>
typedef uint64_t XTime;
#define COUNTS_PER_SECOND 100000000u
void XTime_GetTime(XTime *time);
#endif
