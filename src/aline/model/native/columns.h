/* The step's arithmetic for one kind of processor: each has a file that includes this, with LANES,
 * the columns that a vector holds, and OPERATIONS, what it is to be known by.
 *
 * A matrix between two operations is an array of vectors, one a row. Sums have eight accumulators,
 * enough to keep the processor's multipliers busy, and few enough for sixteen registers.
 */

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int ivec __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define KEYS 64 /* that are read at a time */

/* Of two numbers of which one is none, the second: so that none is none wherever it passes. */
#if LANES == 16
#define larger(a, b) ((vec)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define smaller(a, b) ((vec)_mm512_min_ps((__m512)(a), (__m512)(b)))
#define root(a) ((vec)_mm512_sqrt_ps((__m512)(a)))
#elif LANES == 8
#define larger(a, b) ((vec)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define smaller(a, b) ((vec)_mm256_min_ps((__m256)(a), (__m256)(b)))
#define root(a) ((vec)_mm256_sqrt_ps((__m256)(a)))
#else
INLINE vec larger(vec a, vec b) {
    ivec first = a > b;
    return (vec)((first & (ivec)a) | (~first & (ivec)b));
}
INLINE vec smaller(vec a, vec b) {
    ivec first = a < b;
    return (vec)((first & (ivec)a) | (~first & (ivec)b));
}
INLINE vec root(vec a) {
    for (int i = 0; i < LANES; i++)
        a[i] = sqrtf(a[i]);
    return a;
}
#endif

INLINE vec all(float value) {
    return value - (vec){0};
}

INLINE vec load(const float *place) {
    return *(const loose *)place;
}

INLINE void store(float *place, vec value) {
    *(loose *)place = value;
}

/* So many of a row's columns; beyond them, zeros. */
INLINE vec load_some(const float *place, int count) {
    if (count >= LANES)
        return load(place);
    vec found = {0};
    for (int i = 0; i < count; i++)
        found[i] = place[i];
    return found;
}

INLINE void store_some(float *place, vec value, int count) {
    if (count >= LANES)
        store(place, value);
    else
        for (int i = 0; i < count; i++)
            place[i] = value[i];
}

/* exp(x) 2^n for |x| up to about log(2) / 2: the series, and n in the exponent's bits. */
INLINE vec scaled(vec x, ivec n) {
    vec sum = x * (1 / 5040.0f) + 1 / 720.0f;
    sum = sum * x + 1 / 120.0f;
    sum = sum * x + 1 / 24.0f;
    sum = sum * x + 1 / 6.0f;
    sum = sum * x + 0.5f;
    sum = sum * x + 1;
    sum = sum * x + 1;
    return sum * (vec)((n + 127) << 23);
}

/* To whole numbers, from -126 on: cut off is rounded where it is positive. */
INLINE ivec rounded(vec x) {
    return __builtin_convertvector(x + 126.5f, ivec) - 126;
}

/* 2^x, for x up to 127. */
INLINE vec power_of_two(vec x) {
    x = larger(all(-126), x);
    ivec whole = rounded(x);
    return scaled((x - __builtin_convertvector(whole, vec)) * 6.9314718e-1f, whole);
}

/* The whole part is taken off in two steps, exactly: covariances feel the last digit. */
INLINE vec exponential(vec x) {
    x = larger(all(-87), smaller(all(87), x));
    ivec whole = rounded(x * 1.44269504f);
    vec n = __builtin_convertvector(whole, vec);
    return scaled(x - n * 6.93359375e-1f + n * 2.12194440e-4f, whole);
}

/* 2 artanh(s) for |s| up to a third. */
INLINE vec twice_artanh(vec s) {
    vec z = s * s;
    vec sum = z * (2 / 15.0f) + 2 / 13.0f;
    sum = sum * z + 2 / 11.0f;
    sum = sum * z + 2 / 9.0f;
    sum = sum * z + 2 / 7.0f;
    sum = sum * z + 2 / 5.0f;
    sum = sum * z + 2 / 3.0f;
    sum = sum * z + 2;
    return s * sum;
}

/* Of positive numbers: the exponent's bits, and a series between the roots of a half and of two. */
INLINE vec logarithm(vec x) {
    ivec bits = (ivec)x;
    ivec exponent = (bits - 0x3f3504f3) >> 23;
    vec rest = (vec)(bits - (exponent << 23));
    vec found = twice_artanh((rest - 1) / (rest + 1));
    return found + __builtin_convertvector(exponent, vec) * 6.9314718e-1f;
}

/* log(1 + exp(x)) */
INLINE vec softplus(vec x) {
    vec u = exponential(smaller(-x, x));
    return larger(all(0), x) + twice_artanh(u / (u + 2));
}

/* Products: out[i] += sum over k of a[i * down + k * along] * in[k]. */

INLINE void tile(vec *out, int rows, const float *a, ptrdiff_t down, ptrdiff_t along,
                 const vec *in, int inputs) {
    vec sum[PANEL];
    UNROLLED for (int i = 0; i < rows; i++)
        sum[i] = out[i];
    for (int k = 0; k < inputs; k++, a += along) {
        vec x = in[k];
        UNROLLED for (int i = 0; i < rows; i++)
            sum[i] += a[i * down] * x;
    }
    UNROLLED for (int i = 0; i < rows; i++)
        out[i] = sum[i];
}

INLINE void products(vec *out, int rows, const float *a, ptrdiff_t down, ptrdiff_t along,
                     const vec *in, int inputs) {
    int i = 0;
    for (; i + 8 <= rows; i += 8)
        tile(out + i, 8, a + i * down, down, along, in, inputs);
    if (rows & 4) {
        tile(out + i, 4, a + i * down, down, along, in, inputs);
        i += 4;
    }
    for (; i < rows; i++)
        tile(out + i, 1, a + i * down, down, along, in, inputs);
}

/* out += the map of in; rows up to a whole panel. */
static void add_linear(vec *out, struct linear map, const vec *in) {
    for (int i = 0; i < map.outputs; i += PANEL) {
        UNROLLED for (int j = 0; j < PANEL; j++)
            out[i + j] += map.bias[i + j];
        tile(out + i, PANEL, map.weight + (size_t)i * map.inputs, 1, PANEL, in, map.inputs);
    }
}

INLINE void clear(vec *rows, int count) {
    for (int i = 0; i < count; i++)
        rows[i] = all(0);
}

static void make_linear(vec *out, struct linear map, const vec *in) {
    clear(out, up_to(map.outputs, PANEL));
    add_linear(out, map, in);
}

/* out += the MLP of in; `inner` has room for what is between, and may hold what is added there. */
static void add_mlp(vec *out, struct mlp mlp, const vec *in, vec *inner) {
    add_linear(inner, mlp.first, in);
    for (int i = 0; i < mlp.first.outputs; i++)
        inner[i] = larger(all(0), inner[i]);
    add_linear(out, mlp.second, inner);
}

/* LayerNorm of columns with a mean of zero, without its affine part. */
static void normalise(vec *out, const vec *in, int width) {
    vec even = all(0), odd = all(0);
    for (int i = 0; i + 1 < width; i += 2) {
        even += in[i] * in[i];
        odd += in[i + 1] * in[i + 1];
    }
    if (width & 1)
        even += in[width - 1] * in[width - 1];
    vec factor = 1 / root((even + odd) / (float)width + 1e-5f);
    for (int i = 0; i < width; i++)
        out[i] = in[i] * factor;
}

/* Room for what is between, one block at a time. */
struct scratch {
    vec *columns, *normed; /* [width] */
    vec *query;            /* [width], then what was read */
    vec *inner;            /* [2 * hidden or width] */
    vec *input;            /* what goes into the widest MLP */
    vec *output;           /* of a head */
    vec *weights;          /* [KEYS] */
    vec *plain;            /* [head * plain], what was read of observations as they are */
    void *memory;
};

static int begin(struct scratch *s, const struct network *n) {
    int width = up_to(n->width, PANEL);
    int inner = up_to(2 * (n->hidden > n->width ? n->hidden : n->width), PANEL);
    int plain = n->heads * n->plain, most = n->spectrum + 1;
    most = n->features > most ? n->features : most;
    most = n->worths > most ? n->worths : most;
    most = n->width + plain > most ? n->width + plain : most;
    int output = up_to(3 * n->components + plain + 2, PANEL);
    size_t rows = (size_t)3 * width + inner + most + output + KEYS + plain;
    s->memory = malloc((rows + 1) * sizeof(vec));
    if (s->memory == NULL)
        return 0;
    s->columns = (vec *)(((size_t)s->memory + sizeof(vec) - 1) / sizeof(vec) * sizeof(vec));
    s->normed = s->columns + width;
    s->query = s->normed + width;
    s->inner = s->query + width;
    s->input = s->inner + inner;
    s->output = s->input + most;
    s->weights = s->output + output;
    s->plain = s->weights + KEYS;
    /* Rows that fill a panel up are read, and written back, before anything was put there. */
    clear(s->columns, (int)rows);
    return 1;
}

/* Some of the keys [dim][room] and values of a head. */
struct segment {
    const float *keys, *values;
    const float *plain; /* or NULL */
    int room, count;
    float bias;
};

/* Adds what a head reads, and as much of the observations as they are; the weights' sum. */
static vec attend(vec *read, vec *plain, int plains, const vec *query, int dim, struct segment from,
                  vec *weights) {
    vec total = all(0);
    for (int first = 0; first < from.count; first += KEYS) {
        int count = from.count - first < KEYS ? from.count - first : KEYS;
        for (int i = 0; i < count; i++)
            weights[i] = all(from.bias);
        products(weights, count, from.keys + first, 1, from.room, query, dim);
        for (int i = 0; i < count; i++) {
            weights[i] = power_of_two(smaller(all(MOST), weights[i]));
            total += weights[i];
        }
        products(read, dim, from.values + first, from.room, 1, weights, count);
        if (from.plain != NULL)
            products(plain, plains, from.plain + first, from.room, 1, weights, count);
    }
    return total;
}

/* The feed-forward half of a layer. */
static void feed(struct scratch *s, const struct network *n, struct mlp mlp) {
    clear(s->inner, up_to(n->hidden, PANEL));
    add_mlp(s->columns, mlp, s->normed, s->inner);
    normalise(s->normed, s->columns, n->width);
}

/* A layer for a block of columns that read the context and, of a policy, the goal. */
static void pass(struct scratch *s, const struct network *n, int number, struct stored context,
                 int is_last, const struct stored *goal, int points, float bias) {
    struct layer layer = layer_at(n, number);
    int dim = n->width / n->heads, plains = is_last ? n->plain : 0;
    size_t own = (size_t)number * 2 * n->width * context.room;
    vec read[dim];
    make_linear(s->query, layer.query, s->normed);
    clear(s->plain, n->heads * plains);
    for (int head = 0; head < n->heads; head++) {
        vec *query = s->query + head * dim, *plain = s->plain + head * plains;
        const float *keys = context.key_value + own + (size_t)head * dim * context.room;
        struct segment seen = {keys, keys + (size_t)n->width * context.room,
                               plains ? context.plain : NULL, context.room, context.count, 0};
        clear(read, dim);
        vec total = attend(read, plain, plains, query, dim, seen, s->weights);
        if (goal != NULL) {
            keys = goal->key_value + (size_t)head * dim * goal->room;
            const float *values = keys + (size_t)n->width * goal->room;
            int others = goal->count - points;
            struct segment first = {keys, values, NULL, goal->room, others, 0};
            struct segment last = {keys + others, values + others, NULL, goal->room, points, bias};
            total += attend(read, NULL, 0, query, dim, first, s->weights);
            total += attend(read, NULL, 0, query, dim, last, s->weights);
        }
        vec share = 1 / total;
        for (int i = 0; i < dim; i++)
            query[i] = read[i] * share;
        for (int i = 0; i < plains; i++)
            plain[i] *= share;
    }
    add_linear(s->columns, layer.out, s->query);
    normalise(s->normed, s->columns, n->width);
    feed(s, n, layer.feed);
}

/* What one more observation leaves in every layer, as the last that is stored. */
static int observe(const struct network *n, const float *seen, const float *plain,
                   struct stored context) {
    struct scratch s;
    if (!begin(&s, n))
        return 0;
    for (int i = 0; i < n->plain; i++)
        context.plain[(size_t)i * context.room + context.count - 1] = plain[i];
    for (int i = 0; i <= n->spectrum; i++)
        s.input[i] = all(seen[i]);
    add_mlp(s.columns, n->observation, s.input, s.inner);
    normalise(s.normed, s.columns, n->width);
    for (int number = 0; number < n->layers; number++) {
        /* The policy's layers read the same states as the last of the inference layers. */
        int also = number - (n->layers - n->policy);
        for (int twice = 0; twice <= (also >= 0); twice++) {
            int layer = twice ? n->layers + also : number;
            struct linear map = key_value_at(n, layer);
            float *place = context.key_value + (size_t)layer * map.outputs * context.room;
            make_linear(s.inner, map, s.normed);
            for (int i = 0; i < map.outputs; i++)
                place[(size_t)i * context.room + context.count - 1] = s.inner[i][0];
        }
        if (number + 1 < n->layers)
            feed(&s, n, layer_at(n, number).feed);
    }
    free(s.memory);
    return 1;
}

/* Tokens [width][count], with what a bank says of them [features][count] if it does: their states
 * [layer][width][count] and what they read of the observations [head * plain][count]. */
static int decode(const struct network *n, const float *tokens, const float *features, int count,
                struct stored context, float *states, float *plain) {
    struct scratch s;
    if (!begin(&s, n))
        return 0;
    for (int at = 0; at < count; at += LANES) {
        int some = count - at;
        for (int i = 0; i < n->width; i++)
            s.columns[i] = load_some(tokens + (size_t)i * count + at, some);
        if (features != NULL) {
            for (int i = 0; i < n->features; i++)
                s.input[i] = load_some(features + (size_t)i * count + at, some);
            clear(s.inner, up_to(n->hidden, PANEL));
            add_mlp(s.columns, n->point, s.input, s.inner);
        }
        normalise(s.normed, s.columns, n->width);
        for (int number = 0; number < n->layers; number++) {
            pass(&s, n, number, context, number + 1 == n->layers, NULL, 0, 0);
            float *place = states + (size_t)number * n->width * count + at;
            for (int i = 0; i < n->width; i++)
                store_some(place + (size_t)i * count, s.normed[i], some);
        }
        for (int i = 0; i < n->heads * n->plain; i++)
            store_some(plain + (size_t)i * count + at, s.plain[i], some);
    }
    free(s.memory);
    return 1;
}

/* logits less the log of the sum of their exponentials */
static void log_softmax(vec *logits, int count) {
    vec most = logits[0], sum = all(0);
    for (int i = 1; i < count; i++)
        most = larger(most, logits[i]);
    for (int i = 0; i < count; i++)
        sum += exponential(logits[i] - most);
    most += logarithm(sum);
    for (int i = 0; i < count; i++)
        logits[i] -= most;
}

/* What a head's numbers mean: log weights, means and deviations in place, and moments. */
static void mix(vec *raw, const vec *plain, int components, int plains, vec *centre, vec *spread) {
    vec *mean = raw + components, *std = mean + components, *layout = std + components;
    log_softmax(raw, components);
    for (int i = 0; i < components; i++)
        std[i] = softplus(std[i]) + STD_FLOOR;
    if (plains) {
        vec base = all(0), scale = smaller(all(WIDEST), larger(all(NARROWEST), layout[plains + 1]));
        scale = exponential(scale);
        log_softmax(layout, plains + 1);
        for (int i = 0; i < plains; i++)
            base += exponential(layout[i]) * plain[i];
        for (int i = 0; i < components; i++) {
            mean[i] = base + scale * mean[i];
            std[i] = scale * std[i] + STD_FLOOR;
        }
    }
    vec middle = all(0), square = all(0);
    for (int i = 0; i < components; i++)
        middle += exponential(raw[i]) * mean[i];
    for (int i = 0; i < components; i++) {
        vec away = mean[i] - middle;
        square += exponential(raw[i]) * (std[i] * std[i] + away * away);
    }
    *centre = middle;
    *spread = root(square);
}

/* Beliefs in units of `std` from `mean` [count], if given: log weights, means and deviations
 * [3][count][component], and their moments [2][count]. */
static int believe(const struct network *n, const struct mlp *head, const float *state,
                   const float *plain, int count, const float *mean, const float *std,
                   float *mixtures, float *moments) {
    struct scratch s;
    int plains = n->heads * n->plain, components = n->components;
    if (!begin(&s, n))
        return 0;
    for (int at = 0; at < count; at += LANES) {
        int some = count - at < LANES ? count - at : LANES;
        for (int i = 0; i < n->width; i++)
            s.input[i] = load_some(state + (size_t)i * count + at, some);
        for (int i = 0; i < plains; i++)
            s.input[n->width + i] = load_some(plain + (size_t)i * count + at, some);
        clear(s.inner, up_to(n->hidden, PANEL));
        clear(s.output, up_to(head->second.outputs, PANEL));
        add_mlp(s.output, *head, s.input, s.inner);
        vec centre, spread;
        mix(s.output, s.input + n->width, components, plains, &centre, &spread);
        if (mean != NULL) {
            vec from = load_some(mean + at, some), unit = load_some(std + at, some);
            for (int i = components; i < 2 * components; i++) {
                s.output[i] = from + unit * s.output[i];
                s.output[i + components] *= unit;
            }
            centre = from + unit * centre;
            spread *= unit;
        }
        for (int part = 0; part < 3; part++)
            for (int j = 0; j < some; j++)
                for (int i = 0; i < components; i++)
                    mixtures[((size_t)part * count + at + j) * components + i] =
                        s.output[part * components + i][j];
        store_some(moments + at, centre, some);
        store_some(moments + count + at, spread, some);
    }
    free(s.memory);
    return 1;
}

/* Keys and values of the goal's tokens in a layer of the policy. */
static void project(struct scratch *s, const struct network *n, int number, const float *states,
                    struct stored out) {
    struct linear map = key_value_at(n, n->layers + number);
    states += (size_t)number * n->width * out.count;
    for (int at = 0; at < out.count; at += LANES) {
        for (int i = 0; i < n->width; i++)
            s->normed[i] = load_some(states + (size_t)i * out.count + at, out.count - at);
        make_linear(s->inner, map, s->normed);
        for (int i = 0; i < map.outputs; i++)
            store(out.key_value + (size_t)i * out.room + at, s->inner[i]);
    }
}

/* Tokens of some candidates, the block `at`; logs of what they are worth go to `told`. */
static void propose(struct scratch *s, const struct network *n, struct candidates from, int at,
                    vec *told) {
    int some = from.chosen - at < LANES ? from.chosen - at : LANES;
    const long long *among = from.among + at;
    int hidden = up_to(n->hidden, PANEL);
    clear(s->columns, up_to(n->width, PANEL));
    for (int i = 0; i < n->spectrum; i++) {
        s->input[i] = all(0);
        for (int j = 0; j < some; j++)
            s->input[i][j] = from.spectrum[(size_t)i * from.count + among[j]];
    }
    for (int i = 0; i < hidden; i++)
        s->inner[i] = all(from.told == NULL || i >= n->hidden ? 0 : from.told[i]);
    add_mlp(s->columns, n->candidate, s->input, s->inner);
    for (int i = 0; i < n->features; i++)
        s->input[i] = load_some(from.features + (size_t)i * from.chosen + at, some);
    clear(s->inner, hidden);
    add_mlp(s->columns, n->advised, s->input, s->inner);
    *told = all(0);
    if (from.fall == NULL)
        return;
    for (int i = 0; i < n->worths; i++) {
        int is_last = i + 1 == n->worths;
        const float *row = is_last ? from.average : from.fall + i * from.stride;
        vec share = all(LEAST_SHARE);
        for (int j = 0; j < some; j++)
            share[j] = row[among[j]];
        if (!is_last)
            share /= from.left[i];
        s->input[i] = logarithm(larger(all(LEAST_SHARE), smaller(all(1), share)));
    }
    *told = s->input[n->worths - 1];
    clear(s->inner, hidden);
    add_mlp(s->columns, n->worth, s->input, s->inner);
}

/* The logits [chosen] of some candidates. */
static int rank(const struct network *n, struct candidates from, struct goal goal,
                struct stored context, float *logits) {
    struct scratch s;
    int room = up_to(goal.targets, LANES);
    size_t size = (size_t)2 * n->width * room;
    float *memory = malloc((n->policy * size + 1) * sizeof(float));
    if (memory == NULL || !begin(&s, n)) {
        free(memory);
        return 0;
    }
    for (int number = 0; number < n->policy; number++) {
        struct stored out = {memory + number * size, NULL, room, goal.targets};
        project(&s, n, number, goal.states, out);
    }
    for (int at = 0; at < from.chosen; at += LANES) {
        vec told;
        propose(&s, n, from, at, &told);
        normalise(s.normed, s.columns, n->width);
        for (int number = 0; number < n->policy; number++) {
            struct stored own = {memory + number * size, NULL, room, goal.targets};
            pass(&s, n, n->layers + number, context, 0, &own, goal.points, goal.bias);
        }
        clear(s.inner, up_to(n->hidden, PANEL));
        clear(s.output, PANEL);
        add_mlp(s.output, n->score, s.normed, s.inner);
        store_some(logits + at, s.output[0] + from.steep * told, from.chosen - at);
    }
    free(s.memory);
    free(memory);
    return 1;
}

/* The bank. */

/* A kernel's covariance of points [design], which lie `stride` apart, with one other. */
INLINE vec covary(const float *kernel, int design, const float *where, int stride,
                  const float *other, int other_stride) {
    vec square = all(0);
    for (int axis = 0; axis < design; axis++) {
        vec apart = load(where + (size_t)axis * stride) - other[(size_t)axis * other_stride];
        square += kernel[3 + axis] * (apart * apart);
    }
    vec r = kernel[0] * root(square);
    return exponential(kernel[1] * square - r) * (kernel[2] * square + r + 1);
}

/* The covariance [kernel][block][target][LANES] of points a [design][padded] and targets b
 * [design][room] before any observation. */
static void prior(struct bank bank, const float *a, int padded, const float *b, int targets,
                  int room, float *covariance) {
    for (int k = 0; k < bank.kernels; k++) {
        const float *kernel = bank.kernel + (size_t)k * (3 + bank.design);
        for (int at = 0; at < padded; at += LANES)
            for (int j = 0; j < targets; j++, covariance += LANES)
                store(covariance, covary(kernel, bank.design, a + at, padded, b + j, room));
    }
}

/* A row of the factor times rows [count][LANES]. Some at a time: what is left of a covariance is
 * small, and long sums would leave little of its digits. */
INLINE vec explained(const float *factor, const float *rows, int count) {
    vec whole = all(0);
    for (int first = 0; first < count; first += 16) {
        int end = first + 16 < count ? first + 16 : count, i = first;
        vec sum[4] = {all(0), all(0), all(0), all(0)};
        for (; i + 4 <= end; i += 4)
            UNROLLED for (int j = 0; j < 4; j++)
                sum[j] += factor[i + j] * load(rows + (size_t)(i + j) * LANES);
        for (; i < end; i++)
            sum[0] += factor[i] * load(rows + (size_t)i * LANES);
        whole += sum[0] + sum[1] + (sum[2] + sum[3]);
    }
    return whole;
}

/* Rows over the factor for observations that came since `known`. */
static void learn(struct bank bank, struct observed seen, int known, struct asked asked) {
    float *rows = asked.rows;
    for (int k = 0; k < bank.kernels; k++) {
        const float *kernel = bank.kernel + (size_t)k * (3 + bank.design);
        const float *white = seen.white + (size_t)k * seen.count;
        for (int at = 0; at < asked.padded; at += LANES, rows += (size_t)asked.room * LANES) {
            size_t place = (size_t)k * asked.padded + at;
            vec squares = load(asked.squares + place), mean = load(asked.mean + place);
            vec lost = all(0); /* of squares, whose sum nears one as what is added gets small */
            for (int number = known; number < seen.count; number++) {
                const float *factor = seen.factor[number - known] + (size_t)k * (number + 1);
                vec prior = covary(kernel, bank.design, asked.where + at, asked.padded,
                                   seen.designs + (size_t)number * bank.design, 1);
                vec row = (prior - explained(factor, rows, number)) / factor[number];
                store(rows + (size_t)number * LANES, row);
                vec before = squares, more = row * row - lost;
                squares += more;
                lost = (squares - before) - more;
                mean += white[number] * row;
            }
            store(asked.squares + place, squares);
            store(asked.mean + place, mean);
        }
    }
}

/* Takes the product of a candidate block's row and the targets' off their covariance
 * [target][LANES]; what is left, squared and summed. */
INLINE vec take_off(float *covariance, vec own, const float *rows, ptrdiff_t next, int targets) {
    vec even = all(0), odd = all(0);
    for (int at = 0; at < targets; at += LANES, rows += next) {
        int some = targets - at < LANES ? targets - at : LANES, j = 0;
        for (; j + 2 <= some; j += 2, covariance += 2 * LANES) {
            vec one = load(covariance) - rows[j] * own;
            vec two = load(covariance + LANES) - rows[j + 1] * own;
            store(covariance, one);
            store(covariance + LANES, two);
            even += one * one;
            odd += two * two;
        }
        if (j < some) {
            vec one = load(covariance) - rows[j] * own;
            store(covariance, one);
            covariance += LANES;
            even += one * one;
        }
    }
    return even + odd;
}

INLINE vec sum_squares(const float *covariance, int targets) {
    vec sum = all(0);
    for (int j = 0; j < targets; j++, covariance += LANES)
        sum += load(covariance) * load(covariance);
    return sum;
}

/* The variance of outcomes, of which `squares` is explained. */
INLINE vec unexplained(vec squares) {
    return larger(all(NOISE), 1 + NOISE - squares);
}

/* What outcomes at candidates would tell of targets; their covariance takes in the observations
 * from `known` to `count`. The fall of the targets' variance [kernel][padded], what is left of it
 * [kernel], and the share that would go, [padded], on average. */
static void weigh(int kernels, struct asked candidates, struct asked targets, int known, int count,
                  struct fit fit, float *covariance, float *fall, float *left, float *average) {
    size_t size = (size_t)targets.count * LANES, next = (size_t)targets.room * LANES;
    float most = fit.log_scale[0], whole = 0;
    for (int k = 1; k < kernels; k++)
        most = fit.log_scale[k] > most ? fit.log_scale[k] : most;
    memset(average, 0, candidates.padded * sizeof(float));
    for (int k = 0; k < kernels; k++) {
        const float *other = targets.rows + (size_t)k * (targets.padded / LANES) * next;
        float share = fit.weight[k] * expf(2 * (fit.log_scale[k] - most)), sum = 0;
        for (int j = 0; j < targets.count; j++) {
            float rest = 1 - targets.squares[(size_t)k * targets.padded + j];
            sum += rest < TINY ? TINY : rest;
        }
        left[k] = sum;
        whole += share * sum;
        for (int at = 0; at < candidates.padded; at += LANES, covariance += size) {
            size_t place = (size_t)k * candidates.padded + at;
            const float *own = candidates.rows + place * candidates.room;
            vec squares = known < count ? all(0) : sum_squares(covariance, targets.count);
            for (int number = known; number < count; number++)
                squares = take_off(covariance, load(own + (size_t)number * LANES),
                                   other + (size_t)number * LANES, next, targets.count);
            vec falls = squares / unexplained(load(candidates.squares + place));
            store(fall + place, falls);
            store(average + at, load(average + at) + share * falls);
        }
    }
    for (int at = 0; at < candidates.padded; at += LANES)
        store(average + at, load(average + at) / whole);
}

/* What a bank expects of some points [chosen], and says of them: [3 * kernel + 3][chosen], where
 * the last row is ones. */
static void expect(int kernels, struct asked asked, struct fit fit, const long long *among,
                   int chosen, float *mean, float *std, float *features) {
    for (int at = 0; at < chosen; at += LANES) {
        int some = chosen - at < LANES ? chosen - at : LANES;
        vec means[kernels], left[kernels], average = all(0), square = all(0);
        for (int k = 0; k < kernels; k++) {
            const float *from = asked.mean + (size_t)k * asked.padded;
            const float *squares = asked.squares + (size_t)k * asked.padded;
            means[k] = left[k] = all(0);
            if (among == NULL) {
                means[k] = load(from + at);
                left[k] = load(squares + at);
            } else
                for (int j = 0; j < some; j++) {
                    means[k][j] = from[among[at + j]];
                    left[k][j] = squares[among[at + j]];
                }
            left[k] = unexplained(left[k]);
            average += fit.weight[k] * means[k];
        }
        for (int k = 0; k < kernels; k++) {
            vec away = means[k] - average;
            square += fit.weight[k] * (expf(2 * fit.log_scale[k]) * left[k] + away * away);
        }
        vec log_spread = logarithm(larger(all(TINY), square)) / 2;
        vec spread = exponential(log_spread);
        float *row = features + at;
        for (int part = 0; part < 3; part++)
            for (int k = 0; k < kernels; k++, row += chosen) {
                vec value = all(fit.weight[k]);
                if (part == 0)
                    value = (means[k] - average) / spread;
                else if (part == 1)
                    value = logarithm(left[k]) / 2 + fit.log_scale[k] - log_spread;
                if (part < 2)
                    value = larger(all(-APART), smaller(all(APART), value));
                store_some(row, value, some);
            }
        store_some(row, larger(all(-APART), smaller(all(APART), average)), some);
        store_some(row + chosen, log_spread, some);
        store_some(row + 2 * (size_t)chosen, all(1), some);
        store_some(mean + at, average, some);
        store_some(std + at, spread, some);
    }
}

const struct operations OPERATIONS = {
    LANES, prior, learn, weigh, expect, observe, decode, believe, rank,
};

