/* What the compiled step works on.
 *
 * All numbers are 32-bit floats. Points, tokens and candidates are columns: they lie last in memory,
 * and LANES of them at a time, a block, are one vector of the processor (columns.h). Where a size is
 * said to be padded, it is rounded up to whole blocks.
 *
 * A linear map is stored in panels of PANEL outputs, [panel][input][PANEL], the last one filled up
 * with zeros, and behind them the biases [panel][PANEL].
 */
#ifndef ALINE_STEP_H
#define ALINE_STEP_H

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 8")

/* As in attention.py, heads.py, kernels.py, live_bank.py and network.py. */
#define MOST 120.0f
#define STD_FLOOR 1e-4f
#define NARROWEST -7.0f
#define WIDEST 1.0f
#define NOISE 1e-4f
#define TINY 1e-6f
#define LEAST_SHARE 1e-4f
#define APART 5.0f
#define LOWEST 0.003
#define HIGHEST 0.997

enum { PANEL = 8 };

struct linear {
    const float *weight, *bias;
    int outputs, inputs;
};

struct mlp { /* with a ReLU between */
    struct linear first, second;
};

struct layer {
    struct linear query, out;
    struct mlp feed;
};

/* A network's weights (native_weights.py, `Packed`), one after the other in this order. */
struct network {
    int width, heads, hidden, layers, policy, components;
    int spectrum;  /* numbers that describe a design */
    int features;  /* that a bank has to say of a point */
    int worths;    /* and of a candidate's worth */
    int plain;     /* numbers of an observation that heads are shown as they are, or none */
    const float *layer;      /* of inference, then of the policy */
    const float *key_value;  /* of the same: [key and value][head][dim] from a state */
    struct mlp observation;  /* of a design's spectrum and an outcome */
    struct mlp point;        /* what is added to a point's token, of what a bank says */
    struct mlp candidate, advised, worth; /* of spectrum, what a bank says, and its worth */
    struct mlp posterior, predictive, score;
};

/* What observations left: keys and values in each layer, and right behind, as they are. */
struct stored {
    float *key_value; /* [layer][key and value][head][dim][room] */
    float *plain;     /* [plain][room] */
    int room, count;
};

/* Kernels [kernel][3 + design]: slope, bend, curve, and the stretch of each axis. */
struct bank {
    const float *kernel;
    int kernels, design;
};

/* How well each kernel explains the data, [kernel] each. */
struct fit {
    const float *log_scale, *weight;
};

/* What a bank knows of points. */
struct asked {
    const float *where;     /* [design][padded] */
    float *rows;            /* [kernel][block][room][LANES], over the factor */
    float *squares, *mean;  /* [kernel][padded] */
    int count, padded, room;
};

/* Observations: designs [n][design], rows of the factor [kernel][1 + number], and outcomes over
 * it, [kernel][n]. */
struct observed {
    const float *designs, *const *factor, *white;
    int count;
};

/* What is said of a goal. */
struct goal {
    const float *states; /* [policy layer][width][target] */
    int targets, points; /* of which the last are points, whose logits have a */
    float bias;
};

struct candidates {
    const float *spectrum; /* [spectrum][count] */
    const float *features; /* [features][chosen] */
    const float *told;     /* [hidden], what the policy is told of the parameters, or NULL */
    const float *fall;     /* [kernel][count], NULL with what follows where there are no points */
    const float *left;     /* [kernel] */
    const float *average;  /* [count] */
    const long long *among; /* [chosen] of count */
    size_t stride;          /* of the rows of `fall` */
    int count, chosen;
    float steep;
};

/* One for each kind of processor. */
struct operations {
    int lanes;
    void (*prior)(struct bank, const float *a, int padded, const float *b, int targets, int room,
                  float *covariance);
    void (*learn)(struct bank, struct observed, int known, struct asked);
    void (*weigh)(int kernels, struct asked candidates, struct asked targets, int known, int count,
                  struct fit, float *covariance, float *fall, float *left, float *average);
    void (*expect)(int kernels, struct asked, struct fit, const long long *among, int chosen,
                   float *mean, float *std, float *features);
    int (*observe)(const struct network *, const float *seen, const float *plain, struct stored);
    int (*decode)(const struct network *, const float *tokens, const float *features, int count,
                struct stored, float *states, float *plain);
    int (*believe)(const struct network *, const struct mlp *head, const float *state,
                   const float *plain, int count, const float *mean, const float *std,
                   float *mixtures, float *moments);
    int (*rank)(const struct network *, struct candidates, struct goal, struct stored,
                float *logits);
};

extern const struct operations aline_plain, aline_avx2, aline_avx512;

/* Where things lie. */

static inline int up_to(int count, int unit) { return (count + unit - 1) / unit * unit; }

static inline size_t linear_size(int outputs, int inputs) {
    return (size_t)up_to(outputs, PANEL) * ((size_t)inputs + 1);
}

static inline struct linear linear_at(const float *place, int outputs, int inputs) {
    struct linear found = {place, place + (size_t)up_to(outputs, PANEL) * inputs, outputs, inputs};
    return found;
}

static inline size_t mlp_size(int inputs, int hidden, int outputs) {
    return linear_size(hidden, inputs) + linear_size(outputs, hidden);
}

static inline struct mlp mlp_at(const float *place, int inputs, int hidden, int outputs) {
    struct mlp found = {
        linear_at(place, hidden, inputs),
        linear_at(place + linear_size(hidden, inputs), outputs, hidden),
    };
    return found;
}

static inline size_t layer_size(const struct network *n) {
    return 2 * linear_size(n->width, n->width) + mlp_size(n->width, n->hidden, n->width);
}

static inline struct layer layer_at(const struct network *n, int number) {
    const float *place = n->layer + (size_t)number * layer_size(n);
    size_t square = linear_size(n->width, n->width);
    struct layer found = {
        linear_at(place, n->width, n->width),
        linear_at(place + square, n->width, n->width),
        mlp_at(place + 2 * square, n->width, n->hidden, n->width),
    };
    return found;
}

static inline struct linear key_value_at(const struct network *n, int number) {
    size_t size = linear_size(2 * n->width, n->width);
    return linear_at(n->key_value + (size_t)number * size, 2 * n->width, n->width);
}

#endif
