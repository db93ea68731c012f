// What libsaddle_torch lets out.
#pragma once

#define SADDLE_TORCH_API __attribute__((visibility("default")))
