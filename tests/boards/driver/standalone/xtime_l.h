#ifndef XTIME_L_H
#define XTIME_L_H
/* Time of the standalone library, as its documentation has it. */
#include <stdint.h>
typedef uint64_t XTime;
#define COUNTS_PER_SECOND 99990005U
void XTime_GetTime(XTime *time);
#endif
