// SADDLE_API marks what a shared libsaddle exports; everything else is hidden.
#pragma once

#if defined(_WIN32)
#define SADDLE_API
#else
#define SADDLE_API __attribute__((visibility("default")))
#endif
