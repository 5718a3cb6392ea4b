/* The step as Python calls it (model/native_bank.py, model/live_native.py): buffers and sizes in, buffers filled.
 *
 * Every buffer must be contiguous and as long as the sizes say, so that no mistake in Python reaches
 * beyond one. Nothing is kept between calls, and other threads run meanwhile.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "step.h"

enum { BUFFERS = 20, MOST_SIZE = 1 << 24 };

static const struct operations *operations = &aline_plain;

/* The arguments of a call, taken one after the other. */
struct arguments {
    PyObject *const *given;
    Py_ssize_t left;
    Py_buffer buffers[BUFFERS];
    int held;
};

static PyObject *next(struct arguments *from) {
    if (PyErr_Occurred() || from->left-- <= 0) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "too few arguments");
        return NULL;
    }
    return *from->given++;
}

static int size(struct arguments *from) {
    PyObject *given = next(from);
    long value = given == NULL ? 0 : PyLong_AsLong(given);
    if (!PyErr_Occurred() && (value < 0 || value > MOST_SIZE))
        PyErr_Format(PyExc_ValueError, "a size must lie in [0, %d], got %ld", MOST_SIZE, value);
    return PyErr_Occurred() ? 0 : (int)value;
}

static float number(struct arguments *from) {
    PyObject *given = next(from);
    return given == NULL ? 0 : (float)PyFloat_AsDouble(given);
}

static void *buffer(PyObject *given, struct arguments *from, size_t bytes, int flags) {
    if (given == NULL)
        return NULL;
    if (from->held == BUFFERS) {
        PyErr_SetString(PyExc_TypeError, "too many buffers");
        return NULL;
    }
    Py_buffer *view = &from->buffers[from->held];
    if (PyObject_GetBuffer(given, view, flags))
        return NULL;
    from->held++;
    if ((size_t)view->len != bytes)
        PyErr_Format(PyExc_ValueError, "a buffer must have %zu bytes, got %zd", bytes, view->len);
    return view->buf;
}

static const float *floats(struct arguments *from, size_t count) {
    return buffer(next(from), from, count * sizeof(float), PyBUF_SIMPLE);
}

static float *filled(struct arguments *from, size_t count) {
    return buffer(next(from), from, count * sizeof(float), PyBUF_WRITABLE);
}

static const float *floats_or_none(struct arguments *from, size_t count) {
    PyObject *given = next(from);
    return given == Py_None ? NULL : buffer(given, from, count * sizeof(float), PyBUF_SIMPLE);
}

/* Rows that are contiguous each, and how far apart they lie. */
static const float *rows_or_none(struct arguments *from, int rows, int columns, size_t *stride) {
    PyObject *given = next(from);
    if (given == NULL || given == Py_None)
        return NULL;
    size_t bytes = (size_t)rows * columns * sizeof(float);
    const float *found = buffer(given, from, bytes, PyBUF_STRIDED_RO);
    if (PyErr_Occurred())
        return NULL;
    const Py_buffer *view = &from->buffers[from->held - 1];
    if (view->ndim != 2 || view->shape[0] != rows || view->strides[0] < 0 ||
        view->strides[1] != sizeof(float))
        PyErr_SetString(PyExc_ValueError, "rows must be contiguous each");
    *stride = view->strides[0] / sizeof(float);
    return found;
}

/* Indices below `limit`, or NULL for None. */
static const long long *indices(struct arguments *from, size_t count, int limit) {
    PyObject *given = next(from);
    if (given == Py_None)
        return NULL;
    const long long *found = buffer(given, from, count * sizeof(long long), PyBUF_SIMPLE);
    for (size_t i = 0; i < count && !PyErr_Occurred(); i++)
        if (found[i] < 0 || found[i] >= limit)
            PyErr_Format(PyExc_IndexError, "no column %lld of %d", found[i], limit);
    return found;
}

/* Whether to go on. */
static int are_right(struct arguments *from) {
    if (!PyErr_Occurred() && from->left)
        PyErr_SetString(PyExc_TypeError, "too many arguments");
    return !PyErr_Occurred();
}

static PyObject *finish(struct arguments *from, int done) {
    while (from->held)
        PyBuffer_Release(&from->buffers[--from->held]);
    if (PyErr_Occurred())
        return NULL;
    if (!done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

#define FUNCTION(name) \
    static PyObject *name(PyObject *Py_UNUSED(module), PyObject *const *given, Py_ssize_t count)
#define ARGUMENTS {.given = given, .left = count}

/* How many columns there are with those that fill the last block up. */
static int padded(struct arguments *from, int least) {
    int found = size(from);
    if (!PyErr_Occurred() && (found % operations->lanes || found < least))
        PyErr_Format(PyExc_ValueError, "%d columns must be at least %d, in whole blocks of %d",
                     found, least, operations->lanes);
    return found;
}

static struct network network_of(struct arguments *from) {
    struct network n = {0};
    const int *sizes = buffer(next(from), from, 10 * sizeof(int), PyBUF_SIMPLE);
    if (PyErr_Occurred())
        return n;
    for (int i = 0; i < 10; i++)
        if (sizes[i] < (i == 9 ? 0 : 1) || sizes[i] > MOST_SIZE)
            PyErr_Format(PyExc_ValueError, "size %d of a network is %d", i, sizes[i]);
    if (PyErr_Occurred())
        return n;
    n.width = sizes[0], n.heads = sizes[1], n.hidden = sizes[2], n.layers = sizes[3];
    n.policy = sizes[4], n.components = sizes[5], n.spectrum = sizes[6], n.features = sizes[7];
    n.worths = sizes[8], n.plain = sizes[9];
    int width = n.width, hidden = n.hidden, plain = n.heads * n.plain;
    int head = 3 * n.components + (plain ? plain + 2 : 0);
    struct {
        struct mlp *mlp;
        int inputs, hidden, outputs;
    } mlps[] = {
        {&n.observation, n.spectrum + 1, 2 * hidden, width},
        {&n.point, n.features, hidden, width},
        {&n.candidate, n.spectrum, hidden, width},
        {&n.advised, n.features, hidden, width},
        {&n.worth, n.worths, hidden, width},
        {&n.posterior, width + plain, hidden, head},
        {&n.predictive, width + plain, hidden, head},
        {&n.score, width, hidden, 1},
    };
    int layers = n.layers + n.policy;
    size_t total = layers * (layer_size(&n) + linear_size(2 * width, width));
    for (size_t i = 0; i < sizeof mlps / sizeof *mlps; i++)
        total += mlp_size(mlps[i].inputs, mlps[i].hidden, mlps[i].outputs);
    n.layer = floats(from, total);
    if (PyErr_Occurred())
        return n;
    n.key_value = n.layer + layers * layer_size(&n);
    const float *place = n.key_value + layers * linear_size(2 * width, width);
    for (size_t i = 0; i < sizeof mlps / sizeof *mlps; i++) {
        *mlps[i].mlp = mlp_at(place, mlps[i].inputs, mlps[i].hidden, mlps[i].outputs);
        place += mlp_size(mlps[i].inputs, mlps[i].hidden, mlps[i].outputs);
    }
    return n;
}

static struct stored stored_of(struct arguments *from, const struct network *n) {
    struct stored found;
    found.room = size(from);
    found.count = size(from);
    if (!PyErr_Occurred() && (found.count < 1 || found.count > found.room))
        PyErr_Format(PyExc_ValueError, "%d of %d are stored", found.count, found.room);
    size_t rows = (size_t)(n->layers + n->policy) * 2 * n->width;
    found.key_value = filled(from, (rows + n->plain) * found.room);
    found.plain = found.key_value + rows * found.room;
    return found;
}

static struct fit fit_of(struct arguments *from, int kernels) {
    struct fit found;
    found.log_scale = floats(from, kernels);
    found.weight = floats(from, kernels);
    return found;
}

FUNCTION(prior) {
    struct arguments from = ARGUMENTS;
    int kernels = size(&from), design = size(&from), targets = size(&from);
    int wide = padded(&from, 0), room = padded(&from, targets);
    struct bank bank = {floats(&from, (size_t)kernels * (3 + design)), kernels, design};
    const float *a = floats(&from, (size_t)design * wide);
    const float *b = floats(&from, (size_t)design * room);
    float *covariance = filled(&from, (size_t)kernels * wide * targets);
    if (are_right(&from)) {
        Py_BEGIN_ALLOW_THREADS
        operations->prior(bank, a, wide, b, targets, room, covariance);
        Py_END_ALLOW_THREADS
    }
    return finish(&from, 1);
}

/* Rows of the factor [kernel][1 + number] from the number `known` on, each a buffer of its own. */
static const float **factor_of(PyObject *rows, int known, int count, int kernels, Py_buffer *held,
                               int *taken) {
    const float **found = malloc((count - known + 1) * sizeof *found);
    if (found == NULL || !PyTuple_Check(rows) || PyTuple_GET_SIZE(rows) != count) {
        PyErr_SetString(PyExc_ValueError, "a factor has a row for each observation");
        return found;
    }
    for (int number = known; number < count; number++) {
        PyObject *row = PyTuple_GET_ITEM(rows, number);
        if (PyObject_GetBuffer(row, &held[*taken], PyBUF_SIMPLE))
            return found;
        ++*taken;
        found[number - known] = held[*taken - 1].buf;
        if ((size_t)held[*taken - 1].len != (size_t)kernels * (number + 1) * sizeof(float)) {
            PyErr_Format(PyExc_ValueError, "row %d of a factor has another size", number);
            return found;
        }
    }
    return found;
}

FUNCTION(learn) {
    struct arguments from = ARGUMENTS;
    int kernels = size(&from), design = size(&from), known = size(&from), seen = size(&from);
    int wide = padded(&from, 0), room = size(&from), taken = 0;
    struct bank bank = {floats(&from, (size_t)kernels * (3 + design)), kernels, design};
    const float *designs = floats(&from, (size_t)seen * design);
    const float *white = floats(&from, (size_t)kernels * seen);
    const float *where = floats(&from, (size_t)design * wide);
    float *rows = filled(&from, (size_t)kernels * wide * room);
    float *squares = filled(&from, (size_t)kernels * wide);
    float *mean = filled(&from, (size_t)kernels * wide);
    PyObject *factor_rows = next(&from);
    const float **factor = NULL;
    Py_buffer *held = NULL;
    if (are_right(&from) && (known > seen || seen > room))
        PyErr_Format(PyExc_ValueError, "%d to %d of %d rows are new", known, seen, room);
    if (are_right(&from)) {
        held = malloc((seen - known + 1) * sizeof *held);
        if (held == NULL)
            PyErr_NoMemory();
        else
            factor = factor_of(factor_rows, known, seen, kernels, held, &taken);
    }
    if (are_right(&from)) {
        struct observed observed = {designs, factor, white, seen};
        struct asked asked = {where, rows, squares, mean, wide, wide, room};
        Py_BEGIN_ALLOW_THREADS
        operations->learn(bank, observed, known, asked);
        Py_END_ALLOW_THREADS
    }
    while (taken)
        PyBuffer_Release(&held[--taken]);
    free(held);
    free(factor);
    return finish(&from, 1);
}

/* The first of points [design][padded] that is this design, or -1. */
FUNCTION(find) {
    struct arguments from = ARGUMENTS;
    int design = size(&from), points = size(&from), wide = padded(&from, points), found = -1;
    const float *where = floats(&from, (size_t)design * wide);
    const float *wanted = floats(&from, design);
    if (are_right(&from))
        for (int i = 0; i < points && found < 0; i++) {
            int axis = 0;
            while (axis < design && where[(size_t)axis * wide + i] == wanted[axis])
                axis++;
            found = axis == design ? i : -1;
        }
    PyObject *done = finish(&from, 1);
    Py_XDECREF(done);
    return done == NULL ? NULL : PyLong_FromLong(found);
}

/* How well each kernel explains the data: log scale, density and weight, [3][kernel]. */
static void fit(int kernels, int count, const float *white, const float *log_roots, float *fits) {
    float *scale = fits, *density = fits + kernels, *weight = density + kernels, most = -INFINITY;
    double sum = 0;
    for (int k = 0; k < kernels; k++) {
        double squares = 1;
        for (int i = 0; i < count; i++)
            squares += (double)white[(size_t)k * count + i] * white[(size_t)k * count + i];
        scale[k] = (float)(log(squares / (count + 1)) / 2);
        density[k] = -(count + 1) * scale[k] - log_roots[k];
        most = density[k] > most ? density[k] : most;
    }
    for (int k = 0; k < kernels; k++)
        sum += weight[k] = expf(density[k] - most);
    for (int k = 0; k < kernels; k++)
        weight[k] = (float)(weight[k] / sum);
}

/* One more observation, at one of points of which all is known: its row of the factor and the
 * outcomes over it [kernel][1 + before], and [4][kernel] the logs of the factor's diagonal, summed,
 * and the fit. */
FUNCTION(extend) {
    struct arguments from = ARGUMENTS;
    int kernels = size(&from), before = size(&from), column = size(&from);
    int wide = padded(&from, column + 1), room = size(&from), lanes = operations->lanes;
    const float *rows = floats(&from, (size_t)kernels * wide * room);
    const float *squares = floats(&from, (size_t)kernels * wide);
    const float *mean = floats(&from, (size_t)kernels * wide);
    float outcome = number(&from);
    const float *old_white = floats(&from, (size_t)kernels * before);
    const float *old_roots = floats(&from, kernels);
    float *row = filled(&from, (size_t)kernels * (before + 1));
    float *white = filled(&from, (size_t)kernels * (before + 1));
    float *fits = filled(&from, (size_t)4 * kernels);
    if (are_right(&from) && before > room)
        PyErr_Format(PyExc_ValueError, "%d of %d rows are known", before, room);
    if (!are_right(&from))
        return finish(&from, 1);
    for (int k = 0; k < kernels; k++) {
        size_t block = ((size_t)k * wide + column / lanes * lanes) * room + column % lanes;
        float *own_row = row + (size_t)k * (before + 1), *own = white + (size_t)k * (before + 1);
        for (int i = 0; i < before; i++) {
            own_row[i] = rows[block + (size_t)i * lanes];
            own[i] = old_white[(size_t)k * before + i];
        }
        float left = 1 + NOISE - squares[(size_t)k * wide + column];
        float root = sqrtf(left < NOISE ? NOISE : left);
        own_row[before] = root;
        own[before] = (outcome - mean[(size_t)k * wide + column]) / root;
        fits[k] = old_roots[k] + logf(root);
    }
    fit(kernels, before + 1, white, fits, fits + kernels);
    return finish(&from, 1);
}

/* Lets a value sink in a heap whose least lies first. */
static void sift(const float *values, long long *heap, int at, int count) {
    for (int child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && values[heap[child + 1]] < values[heap[child]])
            child++;
        if (!(values[heap[child]] < values[heap[at]]))
            return;
        long long moved = heap[at];
        heap[at] = heap[child];
        heap[child] = moved;
    }
}

static int by_index(const void *a, const void *b) {
    long long one = *(const long long *)a, other = *(const long long *)b;
    return (one > other) - (one < other);
}

/* Indices, in order, of the largest values of those that are allowed, or the first where none is;
 * how many there are. */
FUNCTION(shortlist) {
    struct arguments from = ARGUMENTS;
    int every = size(&from), most = size(&from), found = 0;
    const float *values = floats(&from, every);
    PyObject *mask = next(&from);
    const char *allowed = mask == Py_None ? NULL : buffer(mask, &from, every, PyBUF_SIMPLE);
    long long *among = buffer(next(&from), &from, most * sizeof *among, PyBUF_WRITABLE);
    if (are_right(&from) && (!every || !most))
        PyErr_SetString(PyExc_ValueError, "there is nothing to choose from");
    for (int i = 0; i < every && are_right(&from); i++) {
        if (allowed != NULL && !allowed[i])
            continue;
        if (found < most) {
            among[found++] = i;
            if (found == most)
                for (int j = most; j--;) /* from the last on, each with what is below it */
                    sift(values, among, j, most);
        } else if (values[i] > values[among[0]]) {
            among[0] = i;
            sift(values, among, 0, most);
        }
    }
    if (are_right(&from)) {
        if (!found)
            among[found++] = 0;
        qsort(among, found, sizeof *among, by_index);
    }
    PyObject *done = finish(&from, 1);
    Py_XDECREF(done);
    return done == NULL ? NULL : PyLong_FromLong(found);
}

FUNCTION(weigh) {
    struct arguments from = ARGUMENTS;
    int kernels = size(&from), known = size(&from), seen = size(&from), targets = size(&from);
    int wide = padded(&from, 0), room = size(&from);
    struct asked candidates = {.count = wide, .padded = wide, .room = room};
    candidates.rows = filled(&from, (size_t)kernels * wide * room);
    candidates.squares = filled(&from, (size_t)kernels * wide);
    int other = padded(&from, targets), other_room = size(&from);
    struct asked goal = {.count = targets, .padded = other, .room = other_room};
    goal.rows = filled(&from, (size_t)kernels * other * other_room);
    goal.squares = filled(&from, (size_t)kernels * other);
    struct fit fit = fit_of(&from, kernels);
    float *covariance = filled(&from, (size_t)kernels * wide * targets);
    float *fall = filled(&from, (size_t)kernels * wide);
    float *left = filled(&from, kernels);
    float *average = filled(&from, wide);
    if (are_right(&from) && (!kernels || known > seen || seen > room || seen > other_room))
        PyErr_Format(PyExc_ValueError, "%d to %d of %d rows are new", known, seen, room);
    if (are_right(&from)) {
        Py_BEGIN_ALLOW_THREADS
        operations->weigh(kernels, candidates, goal, known, seen, fit, covariance, fall, left,
                          average);
        Py_END_ALLOW_THREADS
    }
    return finish(&from, 1);
}

FUNCTION(expect) {
    struct arguments from = ARGUMENTS;
    int kernels = size(&from), points = size(&from), chosen = size(&from);
    int wide = padded(&from, points);
    const long long *among = indices(&from, chosen, points);
    struct asked asked = {.count = points, .padded = wide};
    asked.squares = filled(&from, (size_t)kernels * wide);
    asked.mean = filled(&from, (size_t)kernels * wide);
    struct fit fit = fit_of(&from, kernels);
    float *mean = filled(&from, chosen), *std = filled(&from, chosen);
    float *features = filled(&from, (size_t)(3 * kernels + 3) * chosen);
    if (are_right(&from) && (!kernels || (among == NULL && chosen != points)))
        PyErr_Format(PyExc_ValueError, "%d of %d points, but not which", chosen, points);
    if (are_right(&from)) {
        Py_BEGIN_ALLOW_THREADS
        operations->expect(kernels, asked, fit, among, chosen, mean, std, features);
        Py_END_ALLOW_THREADS
    }
    return finish(&from, 1);
}

/* What embedders make of a design before their MLP. */
static void describe(const float *x, int design, const float *scales, int octaves, float *out) {
    float *sines = out + design, *cosines = sines + design * octaves;
    for (int i = 0; i < design; i++) {
        out[i] = x[i];
        for (int j = 0; j < octaves; j++) {
            *sines++ = sinf(x[i] * scales[j]);
            *cosines++ = cosf(x[i] * scales[j]);
        }
    }
}

/* A design on the scale on which a parameter that is uniform on the same interval is seen: the
 * normal distribution's quantile. From the middle, Newton's steps never go too far, as the
 * distribution bends towards them on either side; a dozen are more than enough this far inside. */
static float as_parameter(float design) {
    double share = 0.5 + 0.5 * design, x = 0;
    share = share < LOWEST ? LOWEST : share > HIGHEST ? HIGHEST : share;
    for (int i = 0; i < 12; i++)
        x += (share - 0.5 * erfc(-x * M_SQRT1_2)) * sqrt(2 * M_PI) * exp(x * x / 2);
    return (float)x;
}

FUNCTION(observe) {
    struct arguments from = ARGUMENTS;
    int done = 1;
    struct network n = network_of(&from);
    struct stored context = stored_of(&from, &n);
    int design = size(&from), octaves = design ? (n.spectrum / design - 1) / 2 : 0;
    const float *scales = floats(&from, octaves);
    const float *settled = floats(&from, design), *x = floats(&from, design);
    float outcome = number(&from);
    if (are_right(&from) && (n.spectrum != design * (1 + 2 * octaves) || n.plain > design + 1))
        PyErr_Format(PyExc_ValueError, "%d numbers do not describe a design", n.spectrum);
    float *seen = malloc((n.spectrum + n.plain + 1) * sizeof *seen);
    if (seen == NULL)
        PyErr_NoMemory();
    if (are_right(&from)) {
        float *plain = seen + n.spectrum + 1;
        describe(settled, design, scales, octaves, seen);
        seen[n.spectrum] = outcome;
        for (int i = 0; i < n.plain; i++)
            plain[i] = i < design ? as_parameter(x[i]) : outcome;
        Py_BEGIN_ALLOW_THREADS
        done = operations->observe(&n, seen, plain, context);
        Py_END_ALLOW_THREADS
    }
    free(seen);
    return finish(&from, done);
}

FUNCTION(decode) {
    struct arguments from = ARGUMENTS;
    int done = 1;
    struct network n = network_of(&from);
    struct stored context = stored_of(&from, &n);
    int tokens = size(&from);
    const float *columns = floats(&from, (size_t)n.width * tokens);
    /* What a bank says has a row of ones below. */
    const float *features = floats_or_none(&from, (size_t)(n.features + 1) * tokens);
    float *states = filled(&from, (size_t)n.layers * n.width * tokens);
    float *plain = filled(&from, (size_t)n.heads * n.plain * tokens);
    if (are_right(&from)) {
        Py_BEGIN_ALLOW_THREADS
        done = operations->decode(&n, columns, features, tokens, context, states, plain);
        Py_END_ALLOW_THREADS
    }
    return finish(&from, done);
}

FUNCTION(believe) {
    struct arguments from = ARGUMENTS;
    int done = 1;
    struct network n = network_of(&from);
    int is_predictive = size(&from), targets = size(&from);
    const float *state = floats(&from, (size_t)n.width * targets);
    const float *plain = floats(&from, (size_t)n.heads * n.plain * targets);
    const float *mean = floats_or_none(&from, targets), *std = floats_or_none(&from, targets);
    float *mixtures = filled(&from, (size_t)3 * targets * n.components);
    float *moments = filled(&from, (size_t)2 * targets);
    if (are_right(&from)) {
        const struct mlp *head = is_predictive ? &n.predictive : &n.posterior;
        Py_BEGIN_ALLOW_THREADS
        done = operations->believe(&n, head, state, plain, targets, std == NULL ? NULL : mean, std,
                                   mixtures, moments);
        Py_END_ALLOW_THREADS
    }
    return finish(&from, done);
}

FUNCTION(rank) {
    struct arguments from = ARGUMENTS;
    int done = 1;
    struct network n = network_of(&from);
    struct stored context = stored_of(&from, &n);
    struct goal goal;
    goal.targets = size(&from);
    goal.points = size(&from);
    goal.bias = number(&from);
    goal.states = floats(&from, (size_t)n.policy * n.width * goal.targets);
    struct candidates some;
    some.count = size(&from);
    some.chosen = size(&from);
    some.among = indices(&from, some.chosen, some.count);
    some.spectrum = floats(&from, (size_t)n.spectrum * some.count);
    some.features = floats(&from, (size_t)(n.features + 1) * some.chosen);
    some.told = floats_or_none(&from, n.hidden);
    some.fall = rows_or_none(&from, n.worths - 1, some.count, &some.stride);
    some.left = floats_or_none(&from, n.worths - 1);
    some.average = floats_or_none(&from, some.count);
    some.steep = number(&from);
    float *logits = filled(&from, some.chosen);
    int parts = (some.fall != NULL) + (some.left != NULL) + (some.average != NULL);
    if (are_right(&from) && (some.among == NULL || parts % 3 || goal.points > goal.targets))
        PyErr_SetString(PyExc_ValueError, "candidates are ranked by all of their worth or none");
    if (are_right(&from)) {
        Py_BEGIN_ALLOW_THREADS
        done = operations->rank(&n, some, goal, context, logits);
        Py_END_ALLOW_THREADS
    }
    return finish(&from, done);
}

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}

static PyMethodDef methods[] = {
    METHOD(prior), METHOD(find), METHOD(shortlist), METHOD(extend), METHOD(learn),   METHOD(weigh), METHOD(expect),
    METHOD(observe), METHOD(decode), METHOD(believe), METHOD(rank), {0},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_native",
    .m_doc = "The step of an experiment with a function, compiled (model/live_native.py).",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__native(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        operations = &aline_avx512;
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        operations = &aline_avx2;
#endif
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddIntConstant(module, "LANES", operations->lanes)) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
