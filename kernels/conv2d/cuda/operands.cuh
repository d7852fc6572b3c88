// Both operands of a phase's product: the gathered image, and the other one (weights or output gradient).
#pragma once
#include "parameters.cuh"
#include "image_operand.cuh"
#if defined USE_WGMMA
#include "warp_specialized.cuh"
#endif

#if defined USE_WGMMA
enum { COPIERS = WARPGROUP };
#else
enum { COPIERS = 32 * USE_DOWN * USE_ACROSS };
#endif

#if defined USE_WEIGHT_GRADIENT
typedef PixelsByColumns<USE_TYPE, USE_COLUMNS, COPIERS> Gathered;
#else
typedef PixelsByRows<USE_TYPE, USE_ROWS, COPIERS> Gathered;
#endif

DEVICE Gathered make_gathered(const Parameters &p, const Phase &phase, int thread)
{
    return Gathered(p.image, phase.geometry, blockIdx.y * p.group_of_image, thread);
}

// The other operand, when threads copy it.
#if !USE_TMA
#if defined USE_WEIGHT_GRADIENT
typedef MatrixByColumns<USE_TYPE, USE_ROWS, COPIERS, VECTOR> Other;
#elif USE_TRANSPOSED
typedef WeightsByColumns<USE_TYPE, USE_COLUMNS, COPIERS> Other;
#else
typedef MatrixByRows<USE_TYPE, USE_COLUMNS, COPIERS, VECTOR> Other;
#endif

// Matrix of a group.
DEVICE Matrix other_of(const Parameters &p, int group)
{
    Matrix other = p.other;
    other.first = static_cast<const USE_TYPE::Element *>(other.first) + group * p.group_of_other;
    return other;
}

DEVICE Other make_other(const Phase &phase, const Matrix &other, int thread)
{
#if defined USE_CORRELATION && USE_TRANSPOSED
    return Other(phase.weights, other, thread);
#else
    return Other(other, thread);
#endif
}
#endif
