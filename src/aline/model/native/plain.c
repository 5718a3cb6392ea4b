/* For processors that nothing more is known of. */
#include "step.h"

#define LANES 4
#define OPERATIONS aline_plain
#include "columns.h"
