#pragma once

__device__ inline float wave(float x)
{
    float value = x;
    for (int step = 0; step < 64; ++step) { value = 0.5f * cosf(value + x); }
    return value;
}
