/* Inner loops of the solver, compiled. Optional: other modules have the same in Python, with equal
 * results: kernel.py in this folder, and price_index.py, nodes.py, packer.py and upsize.py in placement/.
 *
 * All arrays are C-contiguous, of float64 or int64. Sums have a fixed order, and the compiler must not contract
 * them (-ffp-contract=off): both implementations must break ties alike. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* As in native.py: changes with each function that is added or changed. */
#define VERSION 2

/* Arrays of one call; views are released together. */
#define MAX_ARRAYS 32

/* Load of a pod as share of a node, as in kernel.py. */
#define MIN_LOAD 1e-15
#define MAX_LOAD 1e15

/* USD per hour above every real price, as in packer.py. */
#define ANY_PRICE 1e18

/* More pods than any node takes, as in arrays/types.py. */
#define NO_LIMIT ((double)(1LL << 40))

/* Rounding tolerance of prices, and bonus for each pod, as in upsize.py and new_claims.py. */
#define EPSILON 1e-9
#define MORE_PODS_BONUS 1e-9

typedef struct {
    Py_buffer views[MAX_ARRAYS];
    int count;
} Arrays;

static void release(Arrays *arrays)
{
    while (arrays->count > 0)
        PyBuffer_Release(&arrays->views[--arrays->count]);
}

/* Return the data of an array with `rows` rows of `columns`; NULL and an exception if it is none. `formats` are
 * the type codes of the elements, all of 8 bytes. */
static void *view_of(Arrays *arrays, PyObject *object, Py_ssize_t rows, Py_ssize_t columns, int writable,
                     const char *formats, const char *type)
{
    Py_buffer *view = &arrays->views[arrays->count];
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags) < 0)
        return NULL;
    arrays->count++;
    int matches = view->format != NULL && view->format[0] != '\0' && view->format[1] == '\0' &&
                  strchr(formats, view->format[0]) != NULL;
    if (!matches || view->itemsize != 8 || view->len != rows * columns * 8) {
        PyErr_Format(PyExc_ValueError, "expected %zd x %zd numbers of type %s", rows, columns, type);
        return NULL;
    }
    return view->buf;
}

static double *data_of(Arrays *arrays, PyObject *object, Py_ssize_t rows, Py_ssize_t columns, int writable)
{
    return view_of(arrays, object, rows, columns, writable, "d", "float64");
}

/* NumPy's int64 is the C type `long` or `long long`, depending on the platform. */
static int64_t *ints_of(Arrays *arrays, PyObject *object, Py_ssize_t count, int writable)
{
    return view_of(arrays, object, 1, count, writable, "lq", "int64");
}

/* Return how many pods of a size fit: minimum of floor(room / size); exact for whole numbers. */
static double whole_pods(const double *room, const double *size, Py_ssize_t resources)
{
    double fitting = INFINITY;
    for (Py_ssize_t r = 0; r < resources; r++)
        if (size[r] > 0) {
            double quotient = room[r] / (size[r] > 1.0 ? size[r] : 1.0);
            if (quotient < fitting)
                fitting = quotient;
        }
    return floor(fitting);
}

/* Return the position of the first of the lowest values. Four minima at a time do not wait for each other. */
static Py_ssize_t first_minimum(const double *values, Py_ssize_t count)
{
    double lowest[4] = {values[0], values[0], values[0], values[0]};
    Py_ssize_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int lane = 0; lane < 4; lane++)
            lowest[lane] = values[i + lane] < lowest[lane] ? values[i + lane] : lowest[lane];
    for (; i < count; i++)
        lowest[0] = values[i] < lowest[0] ? values[i] : lowest[0];
    for (int lane = 1; lane < 4; lane++)
        lowest[0] = lowest[lane] < lowest[0] ? lowest[lane] : lowest[0];
    for (i = 0; i < count && values[i] != lowest[0]; i++)
        ;
    return i < count ? i : 0;
}

/* Fill one node. `live` and `cost` are scratch [classes]; `per_value` is [resources, classes], and so is
 * `live_per_value`: its columns are those of the classes in `live`. */
static void fill_node(const double *sizes, const double *per_value, double *room, const double *limits,
                      const double *weights, double bulk_share, double *counts, Py_ssize_t classes,
                      Py_ssize_t resources, Py_ssize_t *live, double *live_per_value, double *cost)
{
    Py_ssize_t left = 0;
    for (Py_ssize_t k = 0; k < classes; k++)
        if (limits[k] >= 1.0)
            live[left++] = k;
    int check = 1;
    for (;;) {
        if (check) {
            /* Keep the classes of which one more pod fits. */
            Py_ssize_t kept = 0;
            for (Py_ssize_t i = 0; i < left; i++) {
                Py_ssize_t k = live[i];
                int fits = limits[k] - counts[k] >= 1.0;
                for (Py_ssize_t r = 0; fits && r < resources; r++)
                    fits = sizes[k * resources + r] <= room[r];
                if (fits)
                    live[kept++] = k;
            }
            left = kept;
            if (!left)
                return;
            for (Py_ssize_t r = 0; r < resources; r++)
                for (Py_ssize_t i = 0; i < left; i++)
                    live_per_value[r * classes + i] = per_value[r * classes + live[i]];
            check = 0;
        }
        for (Py_ssize_t r = 0; r < resources; r++) {
            const double *column = live_per_value + r * classes;
            double price = weights[r] / (room[r] > 1.0 ? room[r] : 1.0);
            if (r == 0)
                for (Py_ssize_t i = 0; i < left; i++)
                    cost[i] = price * column[i];
            else
                for (Py_ssize_t i = 0; i < left; i++)
                    cost[i] += price * column[i];
        }
        Py_ssize_t best = first_minimum(cost, left), k = live[best];
        const double *size = sizes + k * resources;
        double fitting = whole_pods(room, size, resources);
        if (fitting < 1.0) {
            check = 1;
            continue;
        }
        double added = floor(fitting * bulk_share), unplaced = limits[k] - counts[k];
        if (added < 1.0)
            added = 1.0;
        if (added > unplaced)
            added = unplaced;
        counts[k] += added;
        for (Py_ssize_t r = 0; r < resources; r++)
            room[r] -= added * size[r];
        if (unplaced - added < 1.0) {
            /* The class is used up. Others may not fit any more: that is checked when one is chosen. */
            left--;
            size_t after = (size_t)(left - best);
            memmove(live + best, live + best + 1, after * sizeof *live);
            for (Py_ssize_t r = 0; r < resources; r++) {
                double *at = live_per_value + r * classes + best;
                memmove(at, at + 1, after * sizeof *at);
            }
            if (!left)
                return;
        }
    }
}

PyDoc_STRVAR(fill_doc, "fill(shape, sizes, per_value, free, limits, weights, bulk_share, counts)\n--\n\n"
                       "Add pods to counts [N, K]; see kernel.py.");

static PyObject *fill(PyObject *module, PyObject *args)
{
    PyObject *objects[6];
    Py_ssize_t nodes, classes, resources;
    double bulk_share;
    if (!PyArg_ParseTuple(args, "(nnn)OOOOOdO:fill", &nodes, &classes, &resources, &objects[0], &objects[1],
                          &objects[2], &objects[3], &objects[4], &bulk_share, &objects[5]))
        return NULL;
    Arrays arrays = {.count = 0};
    double *sizes, *per_value, *free_room, *limits, *weights, *counts;
    if (!(sizes = data_of(&arrays, objects[0], classes, resources, 0)) ||
        !(per_value = data_of(&arrays, objects[1], resources, classes, 0)) ||
        !(free_room = data_of(&arrays, objects[2], nodes, resources, 1)) ||
        !(limits = data_of(&arrays, objects[3], nodes, classes, 0)) ||
        !(weights = data_of(&arrays, objects[4], nodes, resources, 0)) ||
        !(counts = data_of(&arrays, objects[5], nodes, classes, 1))) {
        release(&arrays);
        return NULL;
    }
    Py_ssize_t *live = PyMem_Malloc((size_t)(classes + 1) * sizeof *live);
    double *scratch = PyMem_Malloc((size_t)(classes + 1) * (size_t)(resources + 1) * sizeof *scratch);
    if (live && scratch) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t n = 0; n < nodes; n++)
            fill_node(sizes, per_value, free_room + n * resources, limits + n * classes, weights + n * resources,
                      bulk_share, counts + n * classes, classes, resources, live, scratch,
                      scratch + resources * classes);
        Py_END_ALLOW_THREADS
    }
    int failed = !live || !scratch;
    PyMem_Free(live);
    PyMem_Free(scratch);
    release(&arrays);
    if (failed)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* Replace pods of one node by more valuable ones, up to `rounds` times; the best swap first. */
static void swap_on_node(const double *sizes, const double *values, double min_gain, const double *limits,
                         double *counts, double *room, Py_ssize_t classes, Py_ssize_t resources, int rounds)
{
    for (int round = 0; round < rounds; round++) {
        Py_ssize_t removed = -1, added = -1;
        double best = min_gain;
        for (Py_ssize_t i = 0; i < classes; i++) {
            if (!(counts[i] > 0))
                continue;
            for (Py_ssize_t j = 0; j < classes; j++) {
                double gain = values[j] - values[i];
                if (!(gain > best) || !(counts[j] < limits[j]))
                    continue;
                int fits = 1;
                for (Py_ssize_t r = 0; fits && r < resources; r++)
                    fits = sizes[j * resources + r] - sizes[i * resources + r] <= room[r];
                if (fits) {
                    best = gain;
                    removed = i;
                    added = j;
                }
            }
        }
        if (removed < 0)
            return;
        counts[removed] -= 1;
        counts[added] += 1;
        for (Py_ssize_t r = 0; r < resources; r++)
            room[r] -= sizes[added * resources + r] - sizes[removed * resources + r];
    }
}

PyDoc_STRVAR(swap_doc, "swap(shape, sizes, values, min_gain, limits, counts, free, rounds)\n--\n\n"
                       "Improve counts [N, K] by swaps; see kernel.py.");

static PyObject *swap(PyObject *module, PyObject *args)
{
    PyObject *objects[5];
    Py_ssize_t nodes, classes, resources;
    double min_gain;
    int rounds;
    if (!PyArg_ParseTuple(args, "(nnn)OOdOOOi:swap", &nodes, &classes, &resources, &objects[0], &objects[1],
                          &min_gain, &objects[2], &objects[3], &objects[4], &rounds))
        return NULL;
    Arrays arrays = {.count = 0};
    double *sizes, *values, *limits, *counts, *free_room;
    if (!(sizes = data_of(&arrays, objects[0], classes, resources, 0)) ||
        !(values = data_of(&arrays, objects[1], 1, classes, 0)) ||
        !(limits = data_of(&arrays, objects[2], nodes, classes, 0)) ||
        !(counts = data_of(&arrays, objects[3], nodes, classes, 1)) ||
        !(free_room = data_of(&arrays, objects[4], nodes, resources, 1))) {
        release(&arrays);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t n = 0; n < nodes; n++)
        swap_on_node(sizes, values, min_gain, limits + n * classes, counts + n * classes, free_room + n * resources,
                     classes, resources, rounds);
    Py_END_ALLOW_THREADS
    release(&arrays);
    Py_RETURN_NONE;
}

/* Move the class at the top of a heap down; the top has the highest ratio, of equal ones the lowest number. */
static void sift_down(Py_ssize_t *heap, Py_ssize_t count, Py_ssize_t at, const double *ratio)
{
    Py_ssize_t moved = heap[at];
    for (;;) {
        Py_ssize_t child = 2 * at + 1;
        if (child >= count)
            break;
        Py_ssize_t a = heap[child], b = child + 1 < count ? heap[child + 1] : a;
        if (ratio[b] > ratio[a] || (ratio[b] == ratio[a] && b < a)) {
            child++;
            a = b;
        }
        if (ratio[moved] > ratio[a] || (ratio[moved] == ratio[a] && moved < a))
            break;
        heap[at] = a;
        at = child;
    }
    heap[at] = moved;
}

/* Return the value of the best divisible pods on one node. `load`, `ratio` and `heap` are scratch [classes]. */
static double best_value(const double *values, const double *share, const double *max_pods, const double *weighting,
                         Py_ssize_t classes, Py_ssize_t resources, double *load, double *ratio, Py_ssize_t *heap)
{
    Py_ssize_t count = 0;
    for (Py_ssize_t k = 0; k < classes; k++) {
        if (!(max_pods[k] > 0))
            continue;
        double sum = share[k * resources] * weighting[0];
        for (Py_ssize_t r = 1; r < resources; r++)
            sum += share[k * resources + r] * weighting[r];
        load[k] = sum < MIN_LOAD ? MIN_LOAD : sum > MAX_LOAD ? MAX_LOAD : sum;
        ratio[k] = values[k] / load[k];
        heap[count++] = k;
    }
    for (Py_ssize_t at = count / 2; at-- > 0;)
        sift_down(heap, count, at, ratio);
    double used = 0.0, value = 0.0;
    while (count > 0 && used < 1.0) {
        Py_ssize_t k = heap[0];
        double offered = load[k] * max_pods[k], left = 1.0 - used;
        value += (left < offered ? left : offered) / load[k] * values[k];
        used += offered;
        heap[0] = heap[--count];
        if (count > 0)
            sift_down(heap, count, 0, ratio);
    }
    return value;
}

PyDoc_STRVAR(value_bound_doc, "value_bound(shape, values, share, max_pods, weightings, bound)\n--\n\n"
                              "Write the bound [T, L] of each type and weighting; see kernel.py.");

static PyObject *value_bound(PyObject *module, PyObject *args)
{
    PyObject *objects[5];
    Py_ssize_t types, classes, resources, weightings;
    if (!PyArg_ParseTuple(args, "(nnnn)OOOOO:value_bound", &types, &classes, &resources, &weightings, &objects[0],
                          &objects[1], &objects[2], &objects[3], &objects[4]))
        return NULL;
    Arrays arrays = {.count = 0};
    double *values, *share, *max_pods, *weights, *bound;
    if (!(values = data_of(&arrays, objects[0], 1, classes, 0)) ||
        !(share = data_of(&arrays, objects[1], types * classes, resources, 0)) ||
        !(max_pods = data_of(&arrays, objects[2], types, classes, 0)) ||
        !(weights = data_of(&arrays, objects[3], weightings, resources, 0)) ||
        !(bound = data_of(&arrays, objects[4], types, weightings, 1))) {
        release(&arrays);
        return NULL;
    }
    Py_ssize_t *heap = PyMem_Malloc((size_t)(classes + 1) * sizeof *heap);
    double *scratch = PyMem_Malloc((size_t)(classes + 1) * 2 * sizeof *scratch);
    if (heap && scratch) {
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t t = 0; t < types; t++)
            for (Py_ssize_t l = 0; l < weightings; l++)
                bound[t * weightings + l] =
                    best_value(values, share + t * classes * resources, max_pods + t * classes,
                               weights + l * resources, classes, resources, scratch, scratch + classes, heap);
        Py_END_ALLOW_THREADS
    }
    int failed = !heap || !scratch;
    PyMem_Free(heap);
    PyMem_Free(scratch);
    release(&arrays);
    if (failed)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* Return the first position from `low` to `high` with at least `wanted` in an ascending array, or `high`. */
static int64_t lower_bound(const double *ascending, int64_t low, int64_t high, double wanted)
{
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (ascending[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Types of claim states by price, as in price_index.py. */
typedef struct {
    const double *alloc, *running_max; /* [resources, positions] */
    const double *prices;              /* [positions] */
    Py_ssize_t resources, positions;
} Types;

/* Return the position, from `at` to `end`, of the cheapest type that holds a load; `positions` if none does for
 * `max_price`. Amounts of the load are `stride` apart. */
static int64_t find_cheapest(const Types *types, int64_t at, int64_t end, const double *load, Py_ssize_t stride,
                             double max_price)
{
    /* Before this position no type is large enough, resource by resource. */
    for (Py_ssize_t r = 0; r < types->resources; r++)
        at = lower_bound(types->running_max + r * types->positions, at, end, load[r * stride]);
    for (; at < end && types->prices[at] <= max_price; at++) {
        int fits = 1;
        for (Py_ssize_t r = 0; fits && r < types->resources; r++)
            fits = types->alloc[r * types->positions + at] >= load[r * stride];
        if (fits)
            return at;
    }
    return types->positions;
}

PyDoc_STRVAR(cheapest_fit_doc,
             "cheapest_fit(shape, alloc, running_max, prices, starts, part_of, loads, max_prices, found)\n--\n\n"
             "Write the position [N] of the cheapest type that holds each load; see price_index.py.");

static PyObject *cheapest_fit(PyObject *module, PyObject *args)
{
    PyObject *objects[8];
    Py_ssize_t resources, positions, parts, count;
    if (!PyArg_ParseTuple(args, "(nnnn)OOOOOOOO:cheapest_fit", &resources, &positions, &parts, &count, &objects[0],
                          &objects[1], &objects[2], &objects[3], &objects[4], &objects[5], &objects[6], &objects[7]))
        return NULL;
    Arrays arrays = {.count = 0};
    double *alloc, *running_max, *prices, *loads, *max_prices;
    int64_t *starts, *part_of, *found;
    if (!(alloc = data_of(&arrays, objects[0], resources, positions, 0)) ||
        !(running_max = data_of(&arrays, objects[1], resources, positions, 0)) ||
        !(prices = data_of(&arrays, objects[2], 1, positions, 0)) ||
        !(starts = ints_of(&arrays, objects[3], parts + 1, 0)) ||
        !(part_of = ints_of(&arrays, objects[4], count, 0)) ||
        !(loads = data_of(&arrays, objects[5], resources, count, 0)) ||
        !(max_prices = data_of(&arrays, objects[6], 1, count, 0)) ||
        !(found = ints_of(&arrays, objects[7], count, 1))) {
        release(&arrays);
        return NULL;
    }
    Types types = {alloc, running_max, prices, resources, positions};
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t n = 0; n < count; n++)
        found[n] = find_cheapest(&types, starts[part_of[n]], starts[part_of[n] + 1], loads + n, count, max_prices[n]);
    Py_END_ALLOW_THREADS
    release(&arrays);
    Py_RETURN_NONE;
}

PyDoc_STRVAR(pareto_front_doc, "pareto_front(shape, room, admission, includes, front)\n--\n\n"
                               "Write the rows that no earlier row dominates, return how many; see problem.py.");

static PyObject *pareto_front(PyObject *module, PyObject *args)
{
    PyObject *objects[4];
    Py_ssize_t count, resources, admissions;
    if (!PyArg_ParseTuple(args, "(nnn)OOOO:pareto_front", &count, &resources, &admissions, &objects[0], &objects[1],
                          &objects[2], &objects[3]))
        return NULL;
    Arrays arrays = {.count = 0};
    double *room;
    int64_t *admission, *includes, *front;
    if (!(room = data_of(&arrays, objects[0], count, resources, 0)) ||
        !(admission = ints_of(&arrays, objects[1], count, 0)) ||
        !(includes = ints_of(&arrays, objects[2], admissions * admissions, 0)) ||
        !(front = ints_of(&arrays, objects[3], count, 1))) {
        release(&arrays);
        return NULL;
    }
    Py_ssize_t kept = 0;
    for (Py_ssize_t n = 0; n < count; n++) {
        const double *own = room + n * resources;
        const int64_t *including = includes + admission[n] * admissions;
        int dominated = 0;
        for (Py_ssize_t i = 0; i < kept && !dominated; i++) {
            const double *other = room + front[i] * resources;
            dominated = including[admission[front[i]]] != 0;
            for (Py_ssize_t r = 0; dominated && r < resources; r++)
                dominated = own[r] <= other[r];
        }
        if (!dominated)
            front[kept++] = n;
    }
    release(&arrays);
    return PyLong_FromSsize_t(kept);
}

PyDoc_STRVAR(single_nodes_doc,
             "single_nodes(shape, counts, caps, sizes, alloc, prices, order, admission, admits, types, cost)\n--\n\n"
             "Write the cheapest type that holds all pods of a row, and its price; see beam_search.py.");

static PyObject *single_nodes(PyObject *module, PyObject *args)
{
    PyObject *objects[10];
    Py_ssize_t rows, classes, resources, type_count, admissions;
    if (!PyArg_ParseTuple(args, "(nnnnn)OOOOOOOOOO:single_nodes", &rows, &classes, &resources, &type_count,
                          &admissions, &objects[0], &objects[1], &objects[2], &objects[3], &objects[4], &objects[5],
                          &objects[6], &objects[7], &objects[8], &objects[9]))
        return NULL;
    Arrays arrays = {.count = 0};
    double *counts, *caps, *sizes, *alloc, *prices, *cost;
    int64_t *order, *admission, *admits, *types;
    if (!(counts = data_of(&arrays, objects[0], rows, classes, 0)) ||
        !(caps = data_of(&arrays, objects[1], 1, classes, 0)) ||
        !(sizes = data_of(&arrays, objects[2], classes, resources, 0)) ||
        !(alloc = data_of(&arrays, objects[3], type_count, resources, 0)) ||
        !(prices = data_of(&arrays, objects[4], 1, type_count, 0)) ||
        !(order = ints_of(&arrays, objects[5], type_count, 0)) ||
        !(admission = ints_of(&arrays, objects[6], type_count, 0)) ||
        !(admits = ints_of(&arrays, objects[7], admissions * classes, 0)) ||
        !(types = ints_of(&arrays, objects[8], rows, 1)) || !(cost = data_of(&arrays, objects[9], 1, rows, 1))) {
        release(&arrays);
        return NULL;
    }
    double *load = PyMem_Malloc((size_t)(resources + 1) * sizeof *load);
    char *excluded = PyMem_Malloc((size_t)(admissions + 1));
    for (Py_ssize_t n = 0; load && excluded && n < rows; n++) {
        int possible = 1;
        types[n] = 0;
        cost[n] = INFINITY;
        memset(load, 0, (size_t)resources * sizeof *load);
        memset(excluded, 0, (size_t)admissions);
        for (Py_ssize_t k = 0; possible && k < classes; k++) {
            double pods = counts[n * classes + k];
            if (!(pods > 0))
                continue;
            possible = pods <= caps[k];
            for (Py_ssize_t r = 0; r < resources; r++)
                load[r] += pods * sizes[k * resources + r];
            for (Py_ssize_t a = 0; a < admissions; a++)
                excluded[a] |= !admits[a * classes + k];
        }
        for (Py_ssize_t i = 0; possible && i < type_count; i++) {
            int64_t type = order[i];
            int fits = !excluded[admission[type]];
            for (Py_ssize_t r = 0; fits && r < resources; r++)
                fits = load[r] <= alloc[type * resources + r];
            if (fits) {
                types[n] = type;
                cost[n] = prices[type];
                break;
            }
        }
    }
    int failed = !load || !excluded;
    PyMem_Free(load);
    PyMem_Free(excluded);
    release(&arrays);
    if (failed)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(best_type_doc, "best_type(shape, requests, alloc, cost, max_pods)\n--\n\n"
                            "Return the type with the lowest cost per pod, and its pods; see new_claims.py.");

static PyObject *best_type(PyObject *module, PyObject *args)
{
    PyObject *objects[3];
    Py_ssize_t types, resources;
    double max_pods;
    if (!PyArg_ParseTuple(args, "(nn)OOOd:best_type", &types, &resources, &objects[0], &objects[1], &objects[2],
                          &max_pods))
        return NULL;
    Arrays arrays = {.count = 0};
    double *requests, *alloc, *cost;
    if (!(requests = data_of(&arrays, objects[0], 1, resources, 0)) ||
        !(alloc = data_of(&arrays, objects[1], types, resources, 0)) ||
        !(cost = data_of(&arrays, objects[2], 1, types, 0))) {
        release(&arrays);
        return NULL;
    }
    Py_ssize_t best = -1;
    double best_score = INFINITY, best_pods = 0.0;
    for (Py_ssize_t t = 0; t < types; t++) {
        double pods = NO_LIMIT;
        if (!(cost[t] < INFINITY))
            continue;
        for (Py_ssize_t r = 0; r < resources; r++) {
            double room = alloc[t * resources + r];
            if (requests[r] > 0) {
                double quotient = room / requests[r];
                pods = quotient < pods ? quotient : pods;
            } else if (room < 0) {
                pods = -1;
            }
        }
        pods = floor(pods);
        if (!(pods >= 1))
            continue;
        pods = max_pods < pods ? max_pods : pods;
        double score = cost[t] / (pods > 1.0 ? pods : 1.0) - MORE_PODS_BONUS * pods;
        if (score < best_score) {
            best_score = score;
            best_pods = pods;
            best = t;
        }
    }
    release(&arrays);
    return Py_BuildValue("nd", best, best_pods);
}

PyDoc_STRVAR(best_steps_doc,
             "best_steps(shape, limit, alloc, running_max, prices, starts, requests, used, claims, part_of, max_pods,\n"
             "           old_prices, steps, pods, positions, extra)\n--\n\n"
             "Write the best number of pods to add to each claim, its type and price per pod; see upsize.py.");

static PyObject *best_steps(PyObject *module, PyObject *args)
{
    PyObject *objects[14];
    Py_ssize_t resources, size, nodes, parts, count, step_count;
    double limit;
    if (!PyArg_ParseTuple(args, "(nnnnnn)dOOOOOOOOOOOOOO:best_steps", &resources, &size, &nodes, &parts, &count,
                          &step_count, &limit, &objects[0], &objects[1], &objects[2], &objects[3], &objects[4],
                          &objects[5], &objects[6], &objects[7], &objects[8], &objects[9], &objects[10],
                          &objects[11], &objects[12], &objects[13]))
        return NULL;
    Arrays arrays = {.count = 0};
    double *alloc, *running_max, *prices, *requests, *used, *max_pods, *old_prices, *steps, *pods, *extra;
    int64_t *starts, *claims, *part_of, *positions;
    if (!(alloc = data_of(&arrays, objects[0], resources, size, 0)) ||
        !(running_max = data_of(&arrays, objects[1], resources, size, 0)) ||
        !(prices = data_of(&arrays, objects[2], 1, size, 0)) ||
        !(starts = ints_of(&arrays, objects[3], parts + 1, 0)) ||
        !(requests = data_of(&arrays, objects[4], 1, resources, 0)) ||
        !(used = data_of(&arrays, objects[5], resources, nodes, 0)) ||
        !(claims = ints_of(&arrays, objects[6], count, 0)) || !(part_of = ints_of(&arrays, objects[7], count, 0)) ||
        !(max_pods = data_of(&arrays, objects[8], 1, count, 0)) ||
        !(old_prices = data_of(&arrays, objects[9], 1, count, 0)) ||
        !(steps = data_of(&arrays, objects[10], 1, step_count, 0)) ||
        !(pods = data_of(&arrays, objects[11], 1, count, 1)) ||
        !(positions = ints_of(&arrays, objects[12], count, 1)) ||
        !(extra = data_of(&arrays, objects[13], 1, count, 1))) {
        release(&arrays);
        return NULL;
    }
    Types types = {alloc, running_max, prices, resources, size};
    double *load = PyMem_Malloc((size_t)(resources + 1) * sizeof *load);
    for (Py_ssize_t n = 0; load && n < count; n++) {
        double best = INFINITY;
        extra[n] = INFINITY;
        positions[n] = size;
        pods[n] = 0.0;
        for (Py_ssize_t s = 0; s < step_count; s++) {
            double added = steps[s] < max_pods[n] ? steps[s] : max_pods[n];
            for (Py_ssize_t r = 0; r < resources; r++)
                load[r] = used[r * nodes + claims[n]] + requests[r] * added;
            double max_price = (old_prices[n] + added * limit) * (1 + EPSILON) + EPSILON;
            int64_t at = find_cheapest(&types, starts[part_of[n]], starts[part_of[n] + 1], load, 1, max_price);
            if (at == size)
                continue;
            double more = prices[at] - old_prices[n];
            double per_pod = (more > 0.0 ? more : 0.0) / added, score = per_pod - MORE_PODS_BONUS * added;
            if (score < best) {
                best = score;
                extra[n] = per_pod;
                positions[n] = at;
                pods[n] = added;
            }
        }
    }
    int failed = !load;
    PyMem_Free(load);
    release(&arrays);
    if (failed)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

PyDoc_STRVAR(count_fitting_doc, "count_fitting(shape, requests, available, used, fitting)\n--\n\n"
                                "Write how many pods fit on each of the first nodes; see nodes.py.");

static PyObject *count_fitting(PyObject *module, PyObject *args)
{
    PyObject *objects[4];
    Py_ssize_t resources, size, count;
    if (!PyArg_ParseTuple(args, "(nnn)OOOO:count_fitting", &resources, &size, &count, &objects[0], &objects[1],
                          &objects[2], &objects[3]))
        return NULL;
    Arrays arrays = {.count = 0};
    double *requests, *available, *used, *fitting;
    if (!(requests = data_of(&arrays, objects[0], 1, resources, 0)) ||
        !(available = data_of(&arrays, objects[1], resources, size, 0)) ||
        !(used = data_of(&arrays, objects[2], resources, size, 0)) ||
        !(fitting = data_of(&arrays, objects[3], 1, size, 1))) {
        release(&arrays);
        return NULL;
    }
    if (count > size)
        count = size;
    for (Py_ssize_t n = 0; n < count; n++)
        fitting[n] = INFINITY;
    for (Py_ssize_t r = 0; r < resources; r++) {
        const double *room = available + r * size, *taken = used + r * size;
        if (requests[r] > 0)
            for (Py_ssize_t n = 0; n < count; n++) {
                double quotient = (room[n] - taken[n]) / requests[r];
                fitting[n] = quotient < fitting[n] ? quotient : fitting[n];
            }
    }
    for (Py_ssize_t n = 0; n < count; n++)
        fitting[n] = floor(fitting[n]);
    release(&arrays);
    Py_RETURN_NONE;
}

/* A rule on the pods that share a node. Kinds are those of packer.py. */
enum { SPREAD, AFFINITY, ANTI_AFFINITY };

typedef struct {
    int kind, selects_self;
    long long max_skew;
    const int64_t *matched; /* [nodes]: pods that the rule counts */
    const int64_t *owners;  /* [nodes]: pods that state the rule, if it is of another class; else NULL */
} Rule;

/* Read rules of the form (kind, selects_self, max_skew, matched, owners or None); return 0 and set an exception
 * if they are not. */
static int read_rules(Arrays *arrays, PyObject *tuple, Py_ssize_t nodes, Rule *rules)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); i++) {
        PyObject *matched, *owners;
        if (!PyArg_ParseTuple(PyTuple_GetItem(tuple, i), "ipLOO", &rules[i].kind, &rules[i].selects_self,
                              &rules[i].max_skew, &matched, &owners) ||
            !(rules[i].matched = ints_of(arrays, matched, nodes, 0)))
            return 0;
        rules[i].owners = NULL;
        if (owners != Py_None && !(rules[i].owners = ints_of(arrays, owners, nodes, 0)))
            return 0;
    }
    return 1;
}

/* Return how many of `pods` pods the rules allow on a claim. */
static int64_t allowed_pods(const Rule *rules, Py_ssize_t count, int64_t claim, int64_t pods)
{
    for (Py_ssize_t i = 0; i < count && pods > 0; i++) {
        const Rule *rule = &rules[i];
        int64_t matched = rule->matched[claim], most = pods;
        if (rule->owners) {
            if (rule->owners[claim])
                most = rule->kind == ANTI_AFFINITY ? 0 : rule->max_skew - matched;
        } else if (rule->kind == SPREAD) {
            if (rule->selects_self || matched > rule->max_skew)
                most = rule->max_skew - matched;
        } else if ((rule->kind == ANTI_AFFINITY) == (matched > 0)) {
            most = 0;
        } else if (rule->kind == ANTI_AFFINITY && rule->selects_self) {
            most = 1;
        }
        if (most < pods)
            pods = most;
    }
    return pods;
}

PyDoc_STRVAR(first_fit_doc,
             "first_fit(shape, scan, max_ratio, fitting, states, rows, targets, cost, rules, claims, pods, after)\n"
             "--\n\nWrite the claims that take pods, first fit; see packer.py.");

static PyObject *first_fit(PyObject *module, PyObject *args)
{
    PyObject *objects[8], *tuple;
    Py_ssize_t nodes, known, cost_rows, types, first, end, cursor, wanted;
    double max_ratio;
    if (!PyArg_ParseTuple(args, "(nnnn)(nnnn)dOOOOOO!OOO:first_fit", &nodes, &known, &cost_rows, &types, &first, &end,
                          &cursor, &wanted, &max_ratio, &objects[0], &objects[1], &objects[2], &objects[3],
                          &objects[4], &PyTuple_Type, &tuple, &objects[5], &objects[6], &objects[7]))
        return NULL;
    Py_ssize_t rule_count = PyTuple_Size(tuple);
    if (first < 0 || end < first || end > nodes || 8 + 2 * rule_count > MAX_ARRAYS) {
        PyErr_SetString(PyExc_ValueError, "claims out of range, or too many rules");
        return NULL;
    }
    Py_ssize_t most_claims = wanted < end - first ? wanted : end - first;
    Arrays arrays = {.count = 0};
    Rule rules[MAX_ARRAYS];
    double *fitting, *cost;
    int64_t *states, *rows, *targets, *claims, *pods, *after;
    if (!(fitting = data_of(&arrays, objects[0], 1, nodes, 0)) ||
        !(states = ints_of(&arrays, objects[1], nodes, 0)) || !(rows = ints_of(&arrays, objects[2], nodes, 0)) ||
        !(targets = ints_of(&arrays, objects[3], known, 0)) ||
        !(cost = data_of(&arrays, objects[4], cost_rows, types, 0)) ||
        !(claims = ints_of(&arrays, objects[5], most_claims, 1)) ||
        !(pods = ints_of(&arrays, objects[6], most_claims, 1)) ||
        !(after = ints_of(&arrays, objects[7], most_claims, 1)) || !read_rules(&arrays, tuple, nodes, rules)) {
        release(&arrays);
        return NULL;
    }
    Py_ssize_t found = 0, left = wanted;
    cursor = cursor < first ? first : cursor > end ? end : cursor;
    for (int turn = 0; turn < 2 && left > 0; turn++) {
        Py_ssize_t stop = turn ? cursor : end;
        for (Py_ssize_t claim = turn ? first : cursor; claim < stop && left > 0; claim++) {
            if (!(fitting[claim] >= 1.0))
                continue;
            int64_t before = states[claim], target = before < known ? targets[before] : -1;
            if (target >= cost_rows || before >= cost_rows || rows[claim] >= types) {
                release(&arrays);
                PyErr_SetString(PyExc_ValueError, "claim state or type out of range");
                return NULL;
            }
            if (target < 0) { /* Not computed yet. */
                release(&arrays);
                return PyLong_FromLongLong(-1 - before);
            }
            if (target == 0)
                continue;
            if (target != before) {
                double most = cost[before * types + rows[claim]] * max_ratio;
                if (cost[target * types + rows[claim]] > (most < ANY_PRICE ? most : ANY_PRICE))
                    continue;
            }
            int64_t added = fitting[claim] < (double)left ? (int64_t)fitting[claim] : (int64_t)left;
            added = allowed_pods(rules, rule_count, claim, added);
            if (added < 1)
                continue;
            claims[found] = claim;
            pods[found] = added;
            after[found++] = target;
            left -= added;
        }
    }
    release(&arrays);
    return PyLong_FromSsize_t(found);
}

static PyMethodDef methods[] = {
    {"pareto_front", pareto_front, METH_VARARGS, pareto_front_doc},
    {"single_nodes", single_nodes, METH_VARARGS, single_nodes_doc},
    {"best_type", best_type, METH_VARARGS, best_type_doc},
    {"best_steps", best_steps, METH_VARARGS, best_steps_doc},
    {"count_fitting", count_fitting, METH_VARARGS, count_fitting_doc},
    {"first_fit", first_fit, METH_VARARGS, first_fit_doc},
    {"fill", fill, METH_VARARGS, fill_doc},
    {"swap", swap, METH_VARARGS, swap_doc},
    {"value_bound", value_bound, METH_VARARGS, value_bound_doc},
    {"cheapest_fit", cheapest_fit, METH_VARARGS, cheapest_fit_doc},
    {NULL, NULL, 0, NULL},
};

static int add_version(PyObject *module)
{
    return PyModule_AddIntConstant(module, "VERSION", VERSION);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_version},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_kernel", .m_doc = "Inner loops of the solver.", .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__kernel(void)
{
    return PyModuleDef_Init(&definition);
}
