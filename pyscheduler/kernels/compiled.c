/* C form of numpy_form.py: each function has the same arguments and results, computed in one pass.

   A dozen NumPy calls of a microsecond or more become one loop. Columns are passed as buffers, so the module does not
   depend on NumPy's C API and runs on every Python from 3.11 on. Arguments are validated: a column of another length
   or type raises ValueError and is never read beyond its end. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define BEST 100
#define STRETCH 1024 /* rows per block, so that intermediate results stay in the cache */
#define LANES 16     /* maxima that are kept side by side, so that none waits for the one before */

/* Compiled for several instruction sets, selected when the module is loaded. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#if __GNUC__ >= 12
#define QUICK __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define QUICK __attribute__((target_clones("avx2", "default")))
#endif
#else
#define QUICK
#endif

/* -- columns ---------------------------------------------------------------------------------------------------- */

/* Buffers of the columns of one call, all of one length; released at its end, also after errors. */
typedef struct {
    Py_buffer *views;
    Py_ssize_t held, room;
    Py_ssize_t rows; /* -1 until the first column */
} Columns;

static int open_columns(Columns *columns, Py_ssize_t room)
{
    columns->held = 0;
    columns->room = room;
    columns->rows = -1;
    columns->views = PyMem_Malloc((size_t)room * sizeof(Py_buffer));
    if (columns->views == NULL)
        PyErr_NoMemory();
    return columns->views != NULL;
}

static void close_columns(Columns *columns)
{
    while (columns->held > 0)
        PyBuffer_Release(&columns->views[--columns->held]);
    PyMem_Free(columns->views);
}

/* Return the cells of an array of one of these types, or NULL with a ValueError; `sizes` is the sum of their sizes. */
static void *buffer_of(Columns *columns, PyObject *array, int flags, Py_ssize_t sizes, const char *formats,
                       const char *message, Py_ssize_t *length)
{
    Py_buffer *view = &columns->views[columns->held];
    if (columns->held == columns->room) {
        PyErr_SetString(PyExc_SystemError, "too many columns");
        return NULL;
    }
    if (PyObject_GetBuffer(array, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) < 0)
        return NULL;
    columns->held++;
    int has_size = view->itemsize <= 8 && (view->itemsize & sizes); /* sizes are powers of two */
    if (view->ndim != 1 || !has_size || view->format == NULL || view->format[0] == '\0'
        || view->format[1] != '\0' || strchr(formats, view->format[0]) == NULL) {
        PyErr_SetString(PyExc_ValueError, message);
        return NULL;
    }
    *length = view->len / view->itemsize;
    return view->buf;
}

/* Return the cells of an int64 array, or NULL with a ValueError. */
static int64_t *cells_of(Columns *columns, PyObject *array, int flags, Py_ssize_t *length)
{
    return buffer_of(columns, array, flags, 8, "lqn", "a column must be a one-dimensional array of int64", length);
}

/* Return the kind of each pod, or NULL with a ValueError. */
static const int32_t *kinds_of(Columns *columns, PyObject *array, Py_ssize_t *length)
{
    return buffer_of(columns, array, 0, 4, "il", "kinds must be a one-dimensional array of int32", length);
}

/* Return true, with the common length set, if a column has the length of those before it; else a ValueError. */
static int has_common_length(Columns *columns, Py_ssize_t length)
{
    if (columns->rows < 0)
        columns->rows = length;
    if (columns->rows != length)
        PyErr_SetString(PyExc_ValueError, "columns differ in length");
    return columns->rows == length;
}

/* Like cells_of, for a column that must have the length of the others. */
static int64_t *column_of(Columns *columns, PyObject *array, int flags)
{
    Py_ssize_t length;
    int64_t *cells = cells_of(columns, array, flags, &length);
    return cells != NULL && has_common_length(columns, length) ? cells : NULL;
}

/* Totals of rows: int64, or int16 in a quarter of the memory. */
typedef struct {
    int64_t *wide; /* NULL if they are int16 */
    int16_t *narrow;
} Totals;

/* Read a column of totals; false with a ValueError if it is none. */
static int totals_of(Columns *columns, PyObject *array, int flags, Totals *totals)
{
    Py_ssize_t length;
    totals->wide = NULL;
    totals->narrow = NULL;
    void *cells = buffer_of(columns, array, flags, 2 | 8, "lqnh", "totals must be one-dimensional, of int16 or int64", &length);
    if (cells == NULL || !has_common_length(columns, length))
        return 0;
    if (columns->views[columns->held - 1].itemsize == 8)
        totals->wide = cells;
    else
        totals->narrow = cells;
    return 1;
}

/* Return some totals as int64, those of int16 in a copy with room for them. */
static inline const int64_t *some_totals(const Totals *totals, Py_ssize_t from, Py_ssize_t rows, int64_t *copy)
{
    if (totals->wide != NULL)
        return totals->wide + from;
    for (Py_ssize_t i = 0; i < rows; i++)
        copy[i] = totals->narrow[from + i];
    return copy;
}

/* Classes of rows: int32, or int16 in half of the memory. */
typedef struct {
    const int32_t *wide; /* NULL if they are int16 */
    const int16_t *narrow;
    Py_ssize_t rows;
} Classes;

/* Read a column of classes; false with a ValueError if it is none. */
static int classes_of(Columns *columns, PyObject *array, Classes *classes)
{
    classes->wide = NULL;
    classes->narrow = NULL;
    void *cells = buffer_of(columns, array, 0, 2 | 4, "ilh", "classes must be one-dimensional, of int16 or int32",
                            &classes->rows);
    if (cells == NULL)
        return 0;
    if (columns->views[columns->held - 1].itemsize == 4)
        classes->wide = cells;
    else
        classes->narrow = cells;
    return 1;
}

/* Like classes_of, for a column that must have the length of the others. */
static int class_column_of(Columns *columns, PyObject *array, Classes *classes)
{
    return classes_of(columns, array, classes) && has_common_length(columns, classes->rows);
}

static inline int32_t class_of(const Classes *classes, int64_t row)
{
    return classes->wide != NULL ? classes->wide[row] : classes->narrow[row];
}

/* Return some classes as int32, those of int16 in a copy with room for them. */
static inline const int32_t *some_classes(const Classes *classes, Py_ssize_t from, Py_ssize_t rows, int32_t *copy)
{
    if (classes->wide != NULL)
        return classes->wide + from;
    for (Py_ssize_t i = 0; i < rows; i++)
        copy[i] = classes->narrow[from + i];
    return copy;
}

static int check_count(Py_ssize_t given, Py_ssize_t wanted)
{
    if (given != wanted)
        PyErr_Format(PyExc_TypeError, "%zd arguments instead of %zd", given, wanted);
    return given == wanted;
}

/* Return the size of a tuple, or -1 with a TypeError. */
static Py_ssize_t size_of(PyObject *tuple)
{
    if (PyTuple_Check(tuple))
        return PyTuple_Size(tuple);
    PyErr_SetString(PyExc_TypeError, "requests must be tuples");
    return -1;
}

/* Return an item of a tuple of tuples (borrowed reference), or NULL with an exception. */
static PyObject *part_of(PyObject *rows, Py_ssize_t row, Py_ssize_t place)
{
    PyObject *parts = PyTuple_GetItem(rows, row);
    return parts == NULL || size_of(parts) < 0 ? NULL : PyTuple_GetItem(parts, place);
}

/* Read an int64; 0 with an exception if it is none. */
static int whole_of(PyObject *given, int64_t *number)
{
    *number = PyLong_AsLongLong(given);
    return !(*number == -1 && PyErr_Occurred());
}

static int whole_part_of(PyObject *rows, Py_ssize_t row, Py_ssize_t place, int64_t *number)
{
    PyObject *part = part_of(rows, row, place);
    return part != NULL && whole_of(part, number);
}

static int64_t *column_part_of(Columns *columns, PyObject *rows, Py_ssize_t row, Py_ssize_t place)
{
    PyObject *part = part_of(rows, row, place);
    return part == NULL ? NULL : column_of(columns, part, 0);
}

/* -- requests --------------------------------------------------------------------------------------------------- */

typedef struct {
    int64_t amount, weight;
    const int64_t *capacity, *used;
} Request;

/* Convert tuples of (amount, weight, capacity, used), or without weight. NULL with an exception on errors. */
static Request *read_requests(Columns *columns, PyObject *tuples, Py_ssize_t count, int weighted)
{
    Request *requests = PyMem_Malloc((size_t)(count ? count : 1) * sizeof(Request));
    if (requests == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        Request *each = &requests[k];
        each->weight = 1;
        if (!whole_part_of(tuples, k, 0, &each->amount) || (weighted && !whole_part_of(tuples, k, 1, &each->weight))
            || (each->capacity = column_part_of(columns, tuples, k, 1 + weighted)) == NULL
            || (each->used = column_part_of(columns, tuples, k, 2 + weighted)) == NULL) {
            PyMem_Free(requests);
            return NULL;
        }
    }
    return requests;
}

/* Difference of two non-negative numbers, which fits into int64; wraps for others instead of being undefined. */
static int64_t minus(int64_t one, int64_t other)
{
    return (int64_t)((uint64_t)one - (uint64_t)other);
}

/* Return 1 if every whole exceeds its part by an amount or more. */
QUICK static int have_more(const int64_t *wholes, const int64_t *parts, int64_t amount, Py_ssize_t rows)
{
    int64_t lacking = 0;
    for (Py_ssize_t i = 0; i < rows; i++)
        lacking |= minus(wholes[i], parts[i]) < amount;
    return lacking == 0;
}

PyDoc_STRVAR(has_room_doc, "has_room(pod_counts, allowed_pods, requests) -> bool: see numpy_form.");

static PyObject *has_room(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    Request *requests = NULL;
    const int64_t *counts, *allowed;
    if (!check_count(given, 3))
        return NULL;
    Py_ssize_t resources = size_of(args[2]);
    if (resources < 0 || !open_columns(&columns, 2 + 2 * resources))
        return NULL;
    if ((counts = column_of(&columns, args[0], 0)) == NULL || (allowed = column_of(&columns, args[1], 0)) == NULL
        || (requests = read_requests(&columns, args[2], resources, 0)) == NULL)
        goto done;
    int room = 1;
    for (Py_ssize_t from = 0; room && from < columns.rows; from += STRETCH) {
        Py_ssize_t rows = columns.rows - from < STRETCH ? columns.rows - from : STRETCH;
        room = have_more(allowed + from, counts + from, 1, rows);
        for (Py_ssize_t k = 0; room && k < resources; k++)
            room = have_more(requests[k].capacity + from, requests[k].used + from, requests[k].amount, rows);
    }
    answer = PyBool_FromLong(room);
done:
    PyMem_Free(requests);
    close_columns(&columns);
    return answer;
}

QUICK static void add_missing(int64_t *out, const Request *request, int bit, Py_ssize_t rows)
{
    const int64_t amount = request->amount, *capacity = request->capacity, *used = request->used;
    for (Py_ssize_t i = 0; i < rows; i++)
        out[i] |= ((int64_t)(amount > minus(capacity[i], used[i])) << bit) | (amount > capacity[i]);
}

PyDoc_STRVAR(missing_room_doc, "missing_room(out, pod_counts, allowed_pods, requests) -> None: see numpy_form.");

static PyObject *missing_room(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    Request *requests = NULL;
    int64_t *out;
    const int64_t *counts, *allowed;
    if (!check_count(given, 4))
        return NULL;
    Py_ssize_t resources = size_of(args[3]);
    if (resources > 60) {
        PyErr_SetString(PyExc_ValueError, "more requests than bits");
        return NULL;
    }
    if (resources < 0 || !open_columns(&columns, 3 + 2 * resources))
        return NULL;
    if ((out = column_of(&columns, args[0], PyBUF_WRITABLE)) == NULL
        || (counts = column_of(&columns, args[1], 0)) == NULL || (allowed = column_of(&columns, args[2], 0)) == NULL
        || (requests = read_requests(&columns, args[3], resources, 0)) == NULL)
        goto done;
    for (Py_ssize_t i = 0; i < columns.rows; i++)
        out[i] = (int64_t)(counts[i] >= allowed[i]) << 1;
    for (Py_ssize_t k = 0; k < resources; k++)
        add_missing(out, &requests[k], 2 + (int)k, columns.rows);
    answer = Py_NewRef(Py_None);
done:
    PyMem_Free(requests);
    close_columns(&columns);
    return answer;
}

/* 100 * part / whole, truncated, for results in 0..100: a double division with correction, several times faster. */
static int64_t percent(int64_t part, int64_t whole)
{
    uint64_t hundredfold = (uint64_t)part * BEST, size = (uint64_t)whole;
    uint64_t share = (uint64_t)((double)part * BEST / (double)whole);
    share -= share * size > hundredfold;
    share += (share + 1) * size <= hundredfold;
    return (int64_t)share;
}

/* -- scores of usual columns ------------------------------------------------------------------------------------ */

/* Every node has the resource, and 100 times a capacity is less than 2^53: then the quotient of two doubles, rounded
   down, is exact, and loops without branches are vectorised. 2^46 bytes are 70 TB. */
#define USUAL (INT64_C(1) << 46)

QUICK static int are_usual_cells(const int64_t *capacity, const int64_t *used, Py_ssize_t rows)
{
    int64_t high = 0, empty = 0;
    for (Py_ssize_t i = 0; i < rows; i++) {
        high |= capacity[i] | used[i];
        empty |= capacity[i] == 0;
    }
    return empty == 0 && high >= 0 && high < USUAL;
}

/* Return 1 if these rows are usual, for up to three resources of weights up to 100. */
static int are_usual(const Request *requests, Py_ssize_t resources, Py_ssize_t from, Py_ssize_t rows)
{
    if (resources < 1 || resources > 3)
        return 0;
    for (Py_ssize_t k = 0; k < resources; k++)
        if (requests[k].amount < 0 || requests[k].amount >= USUAL || requests[k].weight > BEST
            || !are_usual_cells(requests[k].capacity + from, requests[k].used + from, rows))
            return 0;
    return 1;
}

/* Exact below 2^52; unlike a conversion from int64 it is vectorised without AVX-512. */
static inline double to_double(int64_t number)
{
    uint64_t bits = (uint64_t)number | UINT64_C(0x4330000000000000);
    double shifted;
    memcpy(&shifted, &bits, sizeof shifted);
    return shifted - 4503599627370496.0; /* 2^52 */
}

/* Add a resource's weighted rating, LEAST or MOST. */
QUICK static void add_rated(double *restrict totals, const Request *request, Py_ssize_t from, Py_ssize_t rows, int least)
{
    const int64_t *restrict capacity = request->capacity + from, *restrict used = request->used + from;
    int64_t amount = request->amount;
    double weight = (double)request->weight;
    for (Py_ssize_t i = 0; i < rows; i++) {
        int64_t whole = capacity[i], after = used[i] + amount;
        after = after < whole ? after : whole;
        int64_t part = least ? whole - after : after;
        totals[i] += (double)(int32_t)(to_double(part) * BEST / to_double(whole)) * weight;
    }
}

/* Divide whole numbers, rounding down. Multiplying by the reciprocal is faster than dividing; the half that is added keeps
   each quotient at least 0.5 / weights away from a whole number, far more than the rounding error. */
QUICK static void divide(int64_t *restrict out, const double *restrict totals, double weights, Py_ssize_t rows)
{
    double share = 1 / weights;
    for (Py_ssize_t i = 0; i < rows; i++)
        out[i] = (int32_t)((totals[i] + 0.5) * share);
}

/* Compute the scores of up to STRETCH usual rows. */
static void usual_allocation_scores(int64_t *out, const Request *requests, Py_ssize_t resources, Py_ssize_t from,
                                    Py_ssize_t rows, int least)
{
    double totals[STRETCH], weights = 0;
    memset(totals, 0, sizeof totals);
    for (Py_ssize_t k = 0; k < resources; k++) {
        add_rated(totals, &requests[k], from, rows, least);
        weights += (double)requests[k].weight;
    }
    divide(out + from, totals, weights, rows);
}

/* The gain in balance of two resources. */
QUICK static void usual_balance_scores(int64_t *restrict out, const Request *one, const Request *other, Py_ssize_t from,
                                       Py_ssize_t end)
{
    const int64_t *restrict capacity = one->capacity, *restrict used = one->used;
    const int64_t *restrict other_capacity = other->capacity, *restrict other_used = other->used;
    int64_t amount = one->amount, other_amount = other->amount;
    for (Py_ssize_t i = from; i < end; i++) {
        int64_t whole = capacity[i], before = used[i], after = before + amount;
        int64_t other_whole = other_capacity[i], other_before = other_used[i], other_after = other_before + other_amount;
        /* A full resource has the share whole / whole, exactly 1. */
        before = before < whole ? before : whole;
        after = after < whole ? after : whole;
        other_before = other_before < other_whole ? other_before : other_whole;
        other_after = other_after < other_whole ? other_after : other_whole;
        double size = to_double(whole), other_size = to_double(other_whole);
        double uneven = fabs((to_double(before) / size - to_double(other_before) / other_size) / 2);
        double uneven_after = fabs((to_double(after) / size - to_double(other_after) / other_size) / 2);
        int32_t gain = (int32_t)((1 - uneven_after) * BEST) - (int32_t)((1 - uneven) * BEST);
        out[i] = BEST / 2 + (BEST / 2 + gain) / 2;
    }
}

/* -- scores of any columns --------------------------------------------------------------------------------------- */

enum { LEAST, MOST, BY_SHAPE };

static void any_allocation_scores(int64_t *out, const Request *requests, Py_ssize_t resources, Py_ssize_t from,
                                  Py_ssize_t rows, long strategy, const int64_t *shape)
{
    for (Py_ssize_t i = from; i < from + rows; i++) {
        int64_t total = 0, weights = 0;
        for (Py_ssize_t k = 0; k < resources; k++) {
            int64_t capacity = requests[k].capacity[i];
            if (capacity <= 0)
                continue;
            __int128 after = (__int128)requests[k].used[i] + requests[k].amount;
            int64_t used = after < 0 ? 0 : after < capacity ? (int64_t)after : capacity;
            int64_t rated = percent(strategy == LEAST ? capacity - used : used, capacity);
            if (strategy == BY_SHAPE && (rated = shape[rated]) == 0)
                continue;
            total += rated * requests[k].weight;
            weights += requests[k].weight;
        }
        /* Rounded half up for a shape, otherwise truncated. */
        out[i] = weights == 0 ? 0 : strategy == BY_SHAPE ? (2 * total + weights) / (2 * weights) : total / weights;
    }
}

PyDoc_STRVAR(allocation_scores_doc, "allocation_scores(out, requests, strategy, shape) -> None: see numpy_form.");

static PyObject *allocation_scores(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    Request *requests = NULL;
    int64_t *out;
    const int64_t *shape;
    Py_ssize_t points;
    if (!check_count(given, 4))
        return NULL;
    long strategy = PyLong_AsLong(args[2]);
    if (strategy == -1 && PyErr_Occurred())
        return NULL;
    Py_ssize_t resources = size_of(args[1]);
    if (resources < 0 || !open_columns(&columns, 2 + 2 * resources))
        return NULL;
    if ((out = column_of(&columns, args[0], PyBUF_WRITABLE)) == NULL
        || (shape = cells_of(&columns, args[3], 0, &points)) == NULL
        || (requests = read_requests(&columns, args[1], resources, 1)) == NULL)
        goto done;
    if (strategy == BY_SHAPE && points != BEST + 1) {
        PyErr_SetString(PyExc_ValueError, "a shape must have 101 scores, for 0..100 percent");
        goto done;
    }
    for (Py_ssize_t from = 0; from < columns.rows; from += STRETCH) {
        Py_ssize_t rows = columns.rows - from < STRETCH ? columns.rows - from : STRETCH;
        if (strategy != BY_SHAPE && are_usual(requests, resources, from, rows))
            usual_allocation_scores(out, requests, resources, from, rows, strategy == LEAST);
        else
            any_allocation_scores(out, requests, resources, from, rows, strategy, shape);
    }
    answer = Py_NewRef(Py_None);
done:
    PyMem_Free(requests);
    close_columns(&columns);
    return answer;
}

/* 100 for equal shares, less with their deviation. Summed in order, as Go does. */
static int64_t evenness(const double *shares, Py_ssize_t count)
{
    double deviation = 0;
    if (count == 2) {
        deviation = fabs((shares[0] - shares[1]) / 2);
    } else if (count > 2) {
        double total = 0, squares = 0;
        for (Py_ssize_t k = 0; k < count; k++)
            total += shares[k];
        double mean = total / (double)count;
        for (Py_ssize_t k = 0; k < count; k++)
            squares += (shares[k] - mean) * (shares[k] - mean);
        deviation = sqrt(squares / (double)count);
    }
    return (int64_t)((1 - deviation) * BEST);
}

/* `shares` has room for two numbers of each resource. */
static void any_balance_scores(int64_t *out, const Request *requests, Py_ssize_t resources, Py_ssize_t from,
                               Py_ssize_t end, double *shares)
{
    double *before = shares, *after = shares + resources;
    for (Py_ssize_t i = from; i < end; i++) {
        Py_ssize_t counted = 0;
        for (Py_ssize_t k = 0; k < resources; k++) {
            int64_t capacity = requests[k].capacity[i], used = requests[k].used[i];
            if (capacity <= 0)
                continue;
            __int128 then = (__int128)used + requests[k].amount;
            before[counted] = used < capacity ? (double)used / (double)capacity : 1;
            after[counted++] = then < capacity ? (double)(int64_t)then / (double)capacity : 1;
        }
        /* Never negative, because both are at least 50. */
        out[i] = BEST / 2 + (BEST / 2 + evenness(after, counted) - evenness(before, counted)) / 2;
    }
}

PyDoc_STRVAR(balance_scores_doc, "balance_scores(out, requests) -> None: see numpy_form.");

static PyObject *balance_scores(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    Request *requests = NULL;
    double *shares = NULL;
    int64_t *out;
    if (!check_count(given, 2))
        return NULL;
    Py_ssize_t resources = size_of(args[1]);
    if (resources < 0 || !open_columns(&columns, 1 + 2 * resources))
        return NULL;
    if ((out = column_of(&columns, args[0], PyBUF_WRITABLE)) == NULL
        || (requests = read_requests(&columns, args[1], resources, 0)) == NULL)
        goto done;
    if ((shares = PyMem_Malloc((size_t)(2 * resources + 1) * sizeof(double))) == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t from = 0; from < columns.rows; from += STRETCH) {
        Py_ssize_t rows = columns.rows - from < STRETCH ? columns.rows - from : STRETCH;
        if (resources == 2 && are_usual(requests, resources, from, rows))
            usual_balance_scores(out, &requests[0], &requests[1], from, from + rows);
        else
            any_balance_scores(out, requests, resources, from, from + rows, shares);
    }
    answer = Py_NewRef(Py_None);
done:
    PyMem_Free(shares);
    PyMem_Free(requests);
    close_columns(&columns);
    return answer;
}

/* Return 1 if all cells of a block are within 0..most; it stays in the cache for the next pass. */
static inline int are_within(const int64_t *cells, int64_t most, Py_ssize_t rows)
{
    int64_t signs = 0;
    for (Py_ssize_t i = 0; i < rows; i++)
        signs |= cells[i] | minus(most, cells[i]);
    return signs >= 0;
}

/* Add weighted scores to totals; return 1 if all scores are within 0..most. */
QUICK static int add_weighted(const Totals *totals, const int64_t *scores, int64_t weight, int64_t most, Py_ssize_t rows)
{
    int within = 1;
    for (Py_ssize_t from = 0; within && from < rows; from += STRETCH) {
        Py_ssize_t end = rows - from < STRETCH ? rows : from + STRETCH;
        within = are_within(scores + from, most, end - from);
        if (within && totals->wide != NULL)
            for (Py_ssize_t i = from; i < end; i++)
                totals->wide[i] += scores[i] * weight;
        else if (within)
            for (Py_ssize_t i = from; i < end; i++)
                totals->narrow[i] = (int16_t)(totals->narrow[i] + (int16_t)scores[i] * (int16_t)weight);
    }
    return within;
}

PyDoc_STRVAR(add_scores_doc, "add_scores(totals, scores, weight, most) -> bool: see numpy_form.");

static PyObject *add_scores(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    Totals totals;
    const int64_t *scores;
    int64_t weight, most;
    if (!check_count(given, 4) || !whole_of(args[2], &weight) || !whole_of(args[3], &most) || !open_columns(&columns, 2))
        return NULL;
    if (totals_of(&columns, args[0], PyBUF_WRITABLE, &totals) && (scores = column_of(&columns, args[1], 0)) != NULL)
        answer = PyBool_FromLong(add_weighted(&totals, scores, weight, most, columns.rows));
    close_columns(&columns);
    return answer;
}

/* -- tables ------------------------------------------------------------------------------------------------------ */

/* Return 1 if the row is in the column, otherwise 0 with an IndexError. */
static int is_row(int64_t row, Py_ssize_t length)
{
    if ((uint64_t)row < (uint64_t)length)
        return 1;
    PyErr_SetString(PyExc_IndexError, "a row is out of range");
    return 0;
}

/* Read the rows argument, NULL for None (all rows); 0 with an exception if it is invalid. */
static int rows_of(Columns *columns, PyObject *given, const int64_t **rows, Py_ssize_t *count)
{
    *rows = NULL;
    return given == Py_None || (*rows = cells_of(columns, given, 0, count)) != NULL;
}

/* Return the greatest of the cells or, with all bits flipped, that of their complements: the least's complement. */
static inline int64_t greatest(const int64_t *cells, Py_ssize_t rows, int64_t flipped)
{
    int64_t tops[LANES];
    Py_ssize_t i = 0;
    for (Py_ssize_t lane = 0; lane < LANES; lane++)
        tops[lane] = INT64_MIN;
    for (; i + LANES <= rows; i += LANES)
        for (Py_ssize_t lane = 0; lane < LANES; lane++)
            tops[lane] = (cells[i + lane] ^ flipped) > tops[lane] ? cells[i + lane] ^ flipped : tops[lane];
    for (; i < rows; i++)
        tops[0] = (cells[i] ^ flipped) > tops[0] ? cells[i] ^ flipped : tops[0];
    for (Py_ssize_t lane = 1; lane < LANES; lane++)
        tops[0] = tops[lane] > tops[0] ? tops[lane] : tops[0];
    return tops[0];
}

/* Widen a range by the extremes of a block, which stays in the cache for the second pass. */
QUICK static void add_extremes(const int64_t *cells, Py_ssize_t rows, int64_t *least, int64_t *most)
{
    int64_t low = ~greatest(cells, rows, -1), high = greatest(cells, rows, 0);
    *least = low < *least ? low : *least;
    *most = high > *most ? high : *most;
}

/* Return true if all rows are in a column of this length, of at least one row. */
QUICK static int are_rows(const int64_t *rows, Py_ssize_t count, Py_ssize_t length)
{
    int64_t signs = 0, last = length - 1;
    for (Py_ssize_t i = 0; i < count; i++)
        signs |= rows[i] | minus(last, rows[i]);
    return signs >= 0;
}

PyDoc_STRVAR(extremes_doc, "extremes(numbers, rows) -> (least, greatest): see numpy_form.");

static PyObject *extremes(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    const int64_t *cells, *rows;
    Py_ssize_t wanted;
    if (!check_count(given, 2) || !open_columns(&columns, 2))
        return NULL;
    if ((cells = column_of(&columns, args[0], 0)) == NULL || !rows_of(&columns, args[1], &rows, &wanted))
        goto done;
    if ((rows == NULL ? columns.rows : wanted) == 0) {
        PyErr_SetString(PyExc_ValueError, "numbers must not be empty");
        goto done;
    }
    if (rows != NULL && !are_rows(rows, wanted, columns.rows)) {
        PyErr_SetString(PyExc_IndexError, "a row is out of range");
        goto done;
    }
    int64_t least = INT64_MAX, most = INT64_MIN, some[STRETCH];
    if (rows == NULL)
        wanted = columns.rows;
    for (Py_ssize_t from = 0; from < wanted; from += STRETCH) {
        Py_ssize_t length = wanted - from < STRETCH ? wanted - from : STRETCH;
        for (Py_ssize_t i = 0; rows != NULL && i < length; i++)
            some[i] = cells[rows[from + i]];
        add_extremes(rows == NULL ? cells + from : some, length, &least, &most);
    }
    answer = Py_BuildValue("LL", (long long)least, (long long)most);
done:
    close_columns(&columns);
    return answer;
}

QUICK static Py_ssize_t count_cells(const int64_t *cells, int64_t value, Py_ssize_t rows)
{
    int64_t found = 0;
    for (Py_ssize_t i = 0; i < rows; i++)
        found += cells[i] == value;
    return (Py_ssize_t)found;
}

PyDoc_STRVAR(count_equal_doc, "count_equal(numbers, value) -> int: see numpy_form.");

static PyObject *count_equal(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    int64_t value;
    if (!check_count(given, 2) || !whole_of(args[1], &value) || !open_columns(&columns, 1))
        return NULL;
    const int64_t *cells = column_of(&columns, args[0], 0);
    if (cells != NULL)
        answer = PyLong_FromSsize_t(count_cells(cells, value, columns.rows));
    close_columns(&columns);
    return answer;
}

#define BLOCK 64 /* rows per entry of `tops` */

/* Set the greatest cell of a block and how many cells equal it. */
static inline void top_of_block(const int64_t *cells, Py_ssize_t rows, int64_t *top, int64_t *count)
{
    int64_t best = greatest(cells, rows, 0), found = 0;
    for (Py_ssize_t i = 0; i < rows; i++)
        found += cells[i] == best;
    *top = best;
    *count = found;
}

/* Set the best total of some blocks, of `blocks` in all. */
QUICK static void search_blocks(
    const Totals *totals, Py_ssize_t rows, int64_t *tops, Py_ssize_t blocks, Py_ssize_t first, Py_ssize_t last)
{
    int64_t copy[BLOCK];
    for (Py_ssize_t block = first; block < last; block++) {
        Py_ssize_t from = block * BLOCK, length = rows - from < BLOCK ? rows - from : BLOCK;
        top_of_block(some_totals(totals, from, length, copy), length, &tops[block], &tops[blocks + block]);
    }
}

/* Read the totals and the best of each block; the number of blocks, or -1 with an exception if they do not match. */
static Py_ssize_t blocks_of(Columns *columns, PyObject *const *args, int flags, Totals *totals, int64_t **tops)
{
    Py_ssize_t length;
    if (!totals_of(columns, args[0], 0, totals) || (*tops = cells_of(columns, args[1], flags, &length)) == NULL)
        return -1;
    Py_ssize_t blocks = (columns->rows + BLOCK - 1) / BLOCK;
    if (length == 2 * blocks)
        return blocks;
    PyErr_SetString(PyExc_ValueError, "there must be two numbers for each block");
    return -1;
}

PyDoc_STRVAR(refresh_tops_doc, "refresh_tops(totals, tops, rows) -> None: see numpy_form.");

static PyObject *refresh_tops(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    Totals totals;
    int64_t *tops;
    if (!check_count(given, 3) || !open_columns(&columns, 2))
        return NULL;
    Py_ssize_t blocks = blocks_of(&columns, args, PyBUF_WRITABLE, &totals, &tops), changed = 0;
    if (blocks < 0)
        goto done;
    if (args[2] == Py_None) {
        search_blocks(&totals, columns.rows, tops, blocks, 0, blocks);
    } else if (PyList_Check(args[2])) {
        changed = PyList_Size(args[2]);
    } else {
        PyErr_SetString(PyExc_TypeError, "rows must be a list");
        goto done;
    }
    for (Py_ssize_t i = 0; i < changed; i++) {
        int64_t row;
        if (!whole_of(PyList_GetItem(args[2], i), &row) || !is_row(row, columns.rows))
            goto done;
        search_blocks(&totals, columns.rows, tops, blocks, row / BLOCK, row / BLOCK + 1);
    }
    answer = Py_NewRef(Py_None);
done:
    close_columns(&columns);
    return answer;
}

/* Return how many rows have the greatest total, which is set. */
QUICK static int64_t count_best(const int64_t *tops, Py_ssize_t blocks, int64_t *total)
{
    int64_t best = greatest(tops, blocks, 0), count = 0;
    *total = best;
    for (Py_ssize_t i = 0; i < blocks; i++)
        count += tops[i] == best ? tops[blocks + i] : 0;
    return count;
}

/* Return random bits modulo the count, without drawing any for 1; -1 with an exception on errors. */
static int64_t drawn(PyObject *random_bits, int64_t count)
{
    if (count == 1)
        return 0;
    PyObject *number = PyObject_CallNoArgs(random_bits);
    if (number == NULL)
        return -1;
    uint64_t bits = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    return bits == UINT64_MAX && PyErr_Occurred() ? -1 : (int64_t)(bits % (uint64_t)count);
}

PyDoc_STRVAR(pick_top_doc, "pick_top(totals, tops, random_bits) -> int: see numpy_form.");

static PyObject *pick_top(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    Totals totals;
    int64_t *tops, best, count, copy[BLOCK];
    if (!check_count(given, 3) || !open_columns(&columns, 2))
        return NULL;
    Py_ssize_t blocks = blocks_of(&columns, args, 0, &totals, &tops), row = 0;
    if (blocks < 1) {
        if (blocks == 0)
            PyErr_SetString(PyExc_ValueError, "there are no rows");
        goto done;
    }
    if ((count = count_best(tops, blocks, &best)) < 1) {
        PyErr_SetString(PyExc_IndexError, "there are fewer rows with the greatest total");
        goto done;
    }
    int64_t n = drawn(args[2], count);
    if (n < 0)
        goto done;
    for (Py_ssize_t block = 0; tops[block] != best || n >= tops[blocks + block]; block++) {
        n -= tops[block] == best ? tops[blocks + block] : 0;
        row += BLOCK;
    }
    Py_ssize_t i = 0, length = columns.rows - row < BLOCK ? columns.rows - row : BLOCK;
    const int64_t *cells = some_totals(&totals, row, length, copy);
    while (i < length && (cells[i] != best || n-- > 0))
        i++;
    if (i < length)
        answer = PyLong_FromSsize_t(row + i);
    else
        PyErr_SetString(PyExc_IndexError, "there are fewer rows with the greatest total");
done:
    close_columns(&columns);
    return answer;
}

PyDoc_STRVAR(put_doc, "put(out, rows, cells) -> None: see numpy_form.");

static PyObject *put(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    int64_t *out;
    const int64_t *rows, *cells;
    Py_ssize_t length;
    if (!check_count(given, 3) || !open_columns(&columns, 3))
        return NULL;
    if ((out = cells_of(&columns, args[0], PyBUF_WRITABLE, &length)) == NULL
        || (rows = column_of(&columns, args[1], 0)) == NULL || (cells = column_of(&columns, args[2], 0)) == NULL)
        goto done;
    for (Py_ssize_t i = 0; i < columns.rows; i++) {
        if (!is_row(rows[i], length))
            goto done;
        out[rows[i]] = cells[i];
    }
    answer = Py_NewRef(Py_None);
done:
    close_columns(&columns);
    return answer;
}

PyDoc_STRVAR(count_by_class_doc, "count_by_class(out, classes, rows) -> None: see numpy_form.");

static PyObject *count_by_class(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    int64_t *out;
    Classes classes;
    const int64_t *rows;
    Py_ssize_t room, wanted;
    if (!check_count(given, 3) || !open_columns(&columns, 3))
        return NULL;
    if ((out = cells_of(&columns, args[0], PyBUF_WRITABLE, &room)) == NULL
        || !classes_of(&columns, args[1], &classes) || !rows_of(&columns, args[2], &rows, &wanted))
        goto done;
    memset(out, 0, (size_t)room * sizeof(int64_t));
    if (rows == NULL)
        wanted = classes.rows;
    for (Py_ssize_t i = 0; i < wanted; i++) {
        int64_t row = rows == NULL ? i : rows[i];
        if (!is_row(row, classes.rows) || !is_row(class_of(&classes, row), room))
            goto done;
        out[class_of(&classes, row)]++;
    }
    answer = Py_NewRef(Py_None);
done:
    close_columns(&columns);
    return answer;
}

/* Return true if all of the numbers are positions in a column of this length. */
QUICK static int are_classes(const int32_t *numbers, Py_ssize_t count, Py_ssize_t length)
{
    uint32_t signs = 0, last = length > INT32_MAX ? INT32_MAX : (uint32_t)(length - 1);
    for (Py_ssize_t i = 0; i < count; i++) /* the highest bit is set if a number is negative or too large */
        signs |= (uint32_t)numbers[i] | (last - (uint32_t)numbers[i]);
    return signs >> 31 == 0;
}

/* Add the sums of their classes to some totals, beginning with row `from`; false with an IndexError for others. */
QUICK static int add_cells(int64_t *restrict out, const Totals *totals, const Classes *classes, const int64_t *sums,
                           Py_ssize_t room, Py_ssize_t from, Py_ssize_t rows)
{
    int32_t copy[STRETCH];
    const int32_t *some = some_classes(classes, from, rows, copy);
    if (!are_classes(some, rows, room)) {
        PyErr_SetString(PyExc_IndexError, "there is no such class");
        return 0;
    }
    if (totals->wide == NULL)
        for (Py_ssize_t i = 0; i < rows; i++)
            out[i] = totals->narrow[from + i] + sums[some[i]];
    else
        for (Py_ssize_t i = 0; i < rows; i++)
            out[i] = totals->wide[from + i] + sums[some[i]];
    return 1;
}

PyDoc_STRVAR(add_by_class_doc, "add_by_class(out, totals, classes, sums) -> None: see numpy_form.");

static PyObject *add_by_class(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    Totals totals;
    Classes classes;
    int64_t *out;
    const int64_t *sums;
    Py_ssize_t room;
    if (!check_count(given, 4) || !open_columns(&columns, 4))
        return NULL;
    if ((out = column_of(&columns, args[0], PyBUF_WRITABLE)) == NULL || !totals_of(&columns, args[1], 0, &totals)
        || !class_column_of(&columns, args[2], &classes) || (sums = cells_of(&columns, args[3], 0, &room)) == NULL)
        goto done;
    for (Py_ssize_t from = 0; from < columns.rows; from += STRETCH) {
        Py_ssize_t rows = columns.rows - from < STRETCH ? columns.rows - from : STRETCH;
        if (!add_cells(out + from, &totals, &classes, sums, room, from, rows))
            goto done;
    }
    answer = Py_NewRef(Py_None);
done:
    close_columns(&columns);
    return answer;
}

/* Return how many of some cells equal the greatest, which `top` receives; 0 if it is below `least`. */
QUICK static Py_ssize_t count_top(const int64_t *cells, Py_ssize_t rows, int64_t least, int64_t *top)
{
    int64_t found = 0, most = greatest(cells, rows, 0);
    if (most >= least)
        for (Py_ssize_t i = 0; i < rows; i++)
            found += cells[i] == most;
    *top = most;
    return (Py_ssize_t)found;
}

/* Return the row of `pick_by_class`, of at least one; -1 with an exception on errors. */
static Py_ssize_t picked(const Totals *totals, const Classes *classes, const int64_t *sums, Py_ssize_t room,
                         uint64_t random_bits)
{
    Py_ssize_t rows = classes->rows, first = 0, all = 0;
    Py_ssize_t *counts = PyMem_Calloc((size_t)(rows / STRETCH + 1), sizeof(Py_ssize_t));
    int64_t top = INT64_MIN, cells[STRETCH];
    if (counts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t from = 0; from < rows; from += STRETCH) {
        Py_ssize_t length = rows - from < STRETCH ? rows - from : STRETCH, count;
        int64_t of_block;
        if (!add_cells(cells, totals, classes, sums, room, from, length)) {
            PyMem_Free(counts);
            return -1;
        }
        count = count_top(cells, length, top, &of_block);
        if (of_block > top) { /* blocks before this one have none of the best rows */
            top = of_block;
            first = from;
            all = 0;
        }
        counts[from / STRETCH] = of_block == top ? count : 0;
        all += counts[from / STRETCH];
    }
    Py_ssize_t n = (Py_ssize_t)(random_bits % (uint64_t)all), row = first;
    while (n >= counts[row / STRETCH]) {
        n -= counts[row / STRETCH];
        row += STRETCH;
    }
    while ((totals->wide == NULL ? totals->narrow[row] : totals->wide[row]) + sums[class_of(classes, row)] != top
           || n-- > 0)
        row++;
    PyMem_Free(counts);
    return row;
}

PyDoc_STRVAR(pick_by_class_doc, "pick_by_class(totals, classes, sums, random_bits) -> int: see numpy_form.");

static PyObject *pick_by_class(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    Totals totals;
    Classes classes;
    const int64_t *sums;
    Py_ssize_t room;
    if (!check_count(given, 4))
        return NULL;
    uint64_t random_bits = PyLong_AsUnsignedLongLong(args[3]);
    if ((random_bits == UINT64_MAX && PyErr_Occurred()) || !open_columns(&columns, 3))
        return NULL;
    if (!totals_of(&columns, args[0], 0, &totals) || !class_column_of(&columns, args[1], &classes)
        || (sums = cells_of(&columns, args[2], 0, &room)) == NULL)
        goto done;
    if (columns.rows == 0) {
        PyErr_SetString(PyExc_ValueError, "there are no rows");
    } else {
        Py_ssize_t row = picked(&totals, &classes, sums, room, random_bits);
        answer = row < 0 ? NULL : PyLong_FromSsize_t(row);
    }
done:
    close_columns(&columns);
    return answer;
}

/* Add one term to the sums; `applies` is NULL if it applies everywhere. */
QUICK static void add_term(double *sums, double weight, double addend, const int64_t *numbers, const int64_t *applies,
                           Py_ssize_t rows)
{
    for (Py_ssize_t i = 0; i < rows; i++)
        sums[i] += applies == NULL || applies[i] != 0 ? (double)numbers[i] * weight + addend : 0.0;
}

PyDoc_STRVAR(rounded_sums_doc, "rounded_sums(out, terms) -> None: see numpy_form.");

static PyObject *rounded_sums(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    double *sums = NULL;
    int64_t *out;
    if (!check_count(given, 2))
        return NULL;
    Py_ssize_t count = size_of(args[1]);
    if (count < 0 || !open_columns(&columns, 1 + 2 * count))
        return NULL;
    if ((out = column_of(&columns, args[0], PyBUF_WRITABLE)) == NULL)
        goto done;
    if ((sums = PyMem_Calloc((size_t)columns.rows + 1, sizeof(double))) == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *weight = part_of(args[1], k, 0), *of = part_of(args[1], k, 3);
        int64_t addend;
        const int64_t *numbers, *applies = NULL;
        if (weight == NULL || of == NULL || !whole_part_of(args[1], k, 1, &addend)
            || (numbers = column_part_of(&columns, args[1], k, 2)) == NULL
            || (of != Py_None && (applies = column_of(&columns, of, 0)) == NULL))
            goto done;
        double by = PyFloat_AsDouble(weight);
        if (by == -1.0 && PyErr_Occurred())
            goto done;
        add_term(sums, by, (double)addend, numbers, applies, columns.rows);
    }
    for (Py_ssize_t i = 0; i < columns.rows; i++) {
        double whole = floor(sums[i]);
        out[i] = (int64_t)whole + (sums[i] - whole >= 0.5);
    }
    answer = Py_NewRef(Py_None);
done:
    PyMem_Free(sums);
    close_columns(&columns);
    return answer;
}

PyDoc_STRVAR(gather_doc, "gather(out, columns, rows) -> None: see numpy_form.");

static PyObject *gather(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    Py_ssize_t wanted, room;
    const int64_t *rows;
    int64_t *out;
    if (!check_count(given, 3))
        return NULL;
    Py_ssize_t count = size_of(args[1]);
    if (count < 0 || !open_columns(&columns, 2 + count))
        return NULL;
    if ((out = cells_of(&columns, args[0], PyBUF_WRITABLE, &room)) == NULL
        || (rows = cells_of(&columns, args[2], 0, &wanted)) == NULL)
        goto done;
    if (room != count * wanted) {
        PyErr_SetString(PyExc_ValueError, "out must have room for all columns");
        goto done;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        Py_ssize_t length;
        PyObject *column = PyTuple_GetItem(args[1], k);
        const int64_t *cells = column == NULL ? NULL : cells_of(&columns, column, 0, &length);
        if (cells == NULL)
            goto done;
        for (Py_ssize_t i = 0; i < wanted; i++) {
            if (!is_row(rows[i], length))
                goto done;
            out[k * wanted + i] = cells[rows[i]];
        }
    }
    answer = Py_NewRef(Py_None);
done:
    close_columns(&columns);
    return answer;
}

/* -- preemption ------------------------------------------------------------------------------------------------- */

/* Return the cells of an array of bool, or NULL with a ValueError. */
static uint8_t *mask_of(Columns *columns, PyObject *array, int flags, Py_ssize_t *length)
{
    return buffer_of(columns, array, flags, 1, "?", "a mask must be a one-dimensional array of bool", length);
}

/* Return the cells of an array of float64, or NULL with a ValueError. */
static double *floats_of(Columns *columns, PyObject *array, int flags, Py_ssize_t *length)
{
    return buffer_of(columns, array, flags, 8, "d", "times must be a one-dimensional array of float64", length);
}

/* Return true if all numbers are kinds with an amount, or -1; else an IndexError. The last amount is that of -1. */
static int are_kinds(const int32_t *kinds, Py_ssize_t count, Py_ssize_t amounts)
{
    int outside = 0;
    for (Py_ssize_t i = 0; i < count; i++)
        outside |= kinds[i] < -1 || kinds[i] >= amounts - 1;
    if (outside)
        PyErr_SetString(PyExc_IndexError, "there is no such kind");
    return !outside;
}

/* Return true if every node has the same number of pods in columns of this length. */
static int has_as_many_pods(Py_ssize_t nodes, Py_ssize_t pods)
{
    return nodes > 0 ? pods % nodes == 0 : pods == 0;
}

typedef struct {
    int64_t *free;
    const int64_t *amounts; /* by kind; the last one is that of kind -1 */
} Resource;

/* Take pods of these kinds from what nodes have free, each if it fits; `stays` receives a 1 for those. */
QUICK static void reprieve_block(uint8_t *stays, const int32_t *kinds, const Resource *resources, Py_ssize_t count,
                           Py_ssize_t from, Py_ssize_t rows)
{
    for (Py_ssize_t j = 0; j < rows; j++)
        stays[j] = kinds[j] >= 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        const int64_t *free = resources[k].free + from, *amounts = resources[k].amounts;
        for (Py_ssize_t j = 0; j < rows; j++)
            stays[j] &= free[j] >= amounts[kinds[j] < 0 ? 0 : kinds[j]];
    }
    if (memchr(stays, 1, (size_t)rows) == NULL) /* frequent: a preemptor that needs all of the room */
        return;
    for (Py_ssize_t k = 0; k < count; k++) {
        int64_t *free = resources[k].free + from;
        const int64_t *amounts = resources[k].amounts;
        for (Py_ssize_t j = 0; j < rows; j++)
            if (stays[j])
                free[j] = minus(free[j], amounts[kinds[j]]);
    }
}

/* Convert tuples of (free, amounts), of which all amounts have one length. NULL with an exception on errors. */
static Resource *read_resources(Columns *columns, PyObject *tuples, Py_ssize_t count, Py_ssize_t *known)
{
    Resource *resources = PyMem_Malloc((size_t)(count ? count : 1) * sizeof(Resource));
    if (resources == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        PyObject *free = part_of(tuples, k, 0), *amounts = free == NULL ? NULL : part_of(tuples, k, 1);
        Py_ssize_t length = 0;
        if (amounts == NULL || (resources[k].free = column_of(columns, free, PyBUF_WRITABLE)) == NULL
            || (resources[k].amounts = cells_of(columns, amounts, 0, &length)) == NULL)
            goto failed;
        if (length < 1 || (k && length != *known)) {
            PyErr_SetString(PyExc_ValueError, "amounts by kind differ in length");
            goto failed;
        }
        *known = length;
    }
    return resources;
failed:
    PyMem_Free(resources);
    return NULL;
}

PyDoc_STRVAR(reprieve_doc, "reprieve(stays, kinds, resources) -> None: see numpy_form.");

static PyObject *reprieve(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    Resource *resources = NULL;
    Py_ssize_t pods, length, known = 0;
    if (!check_count(given, 3))
        return NULL;
    Py_ssize_t count = size_of(args[2]);
    if (count < 0 || !open_columns(&columns, 2 + 2 * count))
        return NULL;
    if ((resources = read_resources(&columns, args[2], count, &known)) == NULL)
        goto done;
    uint8_t *stays = mask_of(&columns, args[0], PyBUF_WRITABLE, &length);
    const int32_t *kinds = stays == NULL ? NULL : kinds_of(&columns, args[1], &pods);
    if (kinds == NULL)
        goto done;
    if (pods != length || count == 0 || !has_as_many_pods(columns.rows, pods)) {
        PyErr_SetString(PyExc_ValueError, "there must be as many pods of each node");
        goto done;
    }
    if (!are_kinds(kinds, pods, known))
        goto done;
    for (Py_ssize_t from = 0; from < columns.rows; from += STRETCH) { /* all pods of a few nodes after one another */
        Py_ssize_t rows = columns.rows - from < STRETCH ? columns.rows - from : STRETCH;
        for (Py_ssize_t first = from; first < pods; first += columns.rows)
            reprieve_block(stays + first, kinds + first, resources, count, from, rows);
    }
    answer = Py_NewRef(Py_None);
done:
    PyMem_Free(resources);
    close_columns(&columns);
    return answer;
}

#define CRITERIA 5

typedef struct {
    const uint8_t *stays, *violating;
    const int32_t *kinds;
    const double *started;
    const int64_t *priorities; /* by kind */
    int64_t offset;            /* makes all priorities positive */
} Victims;

/* Compute the loss of one node, whose first pod has this index; `out` has a column per criterion. */
static void loss_of_node(double *out, const Victims *pods, Py_ssize_t node, Py_ssize_t nodes, Py_ssize_t count)
{
    int64_t violations = 0, highest = 0, total = 0, victims = 0;
    double earliest = INFINITY;
    for (Py_ssize_t i = node; i < count; i += nodes) {
        if (pods->stays[i] || pods->kinds[i] < 0)
            continue;
        int64_t priority = pods->priorities[pods->kinds[i]];
        victims++;
        violations += pods->violating[i] != 0;
        total += priority + pods->offset;
        if (priority > highest || victims == 1) {
            highest = priority;
            earliest = pods->started[i];
        } else if (priority == highest && pods->started[i] < earliest) {
            earliest = pods->started[i];
        }
    }
    const double criteria[CRITERIA] = {(double)violations, (double)highest, (double)total, (double)victims, -earliest};
    for (int c = 0; c < CRITERIA; c++)
        out[c * nodes + node] = victims ? criteria[c] : INFINITY;
}

PyDoc_STRVAR(victim_losses_doc,
             "victim_losses(out, stays, kinds, violating, started, priorities, offset) -> None: see numpy_form.");

static PyObject *victim_losses(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t given)
{
    Columns columns;
    PyObject *answer = NULL;
    Victims pods;
    double *out;
    Py_ssize_t cells, lengths[4], known;
    if (!check_count(given, 7) || !whole_of(args[6], &pods.offset) || !open_columns(&columns, 6))
        return NULL;
    if ((out = floats_of(&columns, args[0], PyBUF_WRITABLE, &cells)) == NULL
        || (pods.stays = mask_of(&columns, args[1], 0, &lengths[0])) == NULL
        || (pods.kinds = kinds_of(&columns, args[2], &lengths[1])) == NULL
        || (pods.violating = mask_of(&columns, args[3], 0, &lengths[2])) == NULL
        || (pods.started = floats_of(&columns, args[4], 0, &lengths[3])) == NULL
        || (pods.priorities = cells_of(&columns, args[5], 0, &known)) == NULL)
        goto done;
    Py_ssize_t nodes = cells / CRITERIA, count = lengths[0];
    if (!has_as_many_pods(nodes, count) || cells % CRITERIA || lengths[1] != count || lengths[2] != count
        || lengths[3] != count) {
        PyErr_SetString(PyExc_ValueError, "there must be as many pods of each node");
        goto done;
    }
    if (!are_kinds(pods.kinds, count, known))
        goto done;
    for (Py_ssize_t node = 0; node < nodes; node++)
        loss_of_node(out, &pods, node, nodes, count);
    answer = Py_NewRef(Py_None);
done:
    close_columns(&columns);
    return answer;
}

static PyMethodDef functions[] = {
    {"has_room", (PyCFunction)(void (*)(void))has_room, METH_FASTCALL, has_room_doc},
    {"missing_room", (PyCFunction)(void (*)(void))missing_room, METH_FASTCALL, missing_room_doc},
    {"allocation_scores", (PyCFunction)(void (*)(void))allocation_scores, METH_FASTCALL, allocation_scores_doc},
    {"balance_scores", (PyCFunction)(void (*)(void))balance_scores, METH_FASTCALL, balance_scores_doc},
    {"add_scores", (PyCFunction)(void (*)(void))add_scores, METH_FASTCALL, add_scores_doc},
    {"extremes", (PyCFunction)(void (*)(void))extremes, METH_FASTCALL, extremes_doc},
    {"gather", (PyCFunction)(void (*)(void))gather, METH_FASTCALL, gather_doc},
    {"count_equal", (PyCFunction)(void (*)(void))count_equal, METH_FASTCALL, count_equal_doc},
    {"refresh_tops", (PyCFunction)(void (*)(void))refresh_tops, METH_FASTCALL, refresh_tops_doc},
    {"pick_top", (PyCFunction)(void (*)(void))pick_top, METH_FASTCALL, pick_top_doc},
    {"put", (PyCFunction)(void (*)(void))put, METH_FASTCALL, put_doc},
    {"count_by_class", (PyCFunction)(void (*)(void))count_by_class, METH_FASTCALL, count_by_class_doc},
    {"add_by_class", (PyCFunction)(void (*)(void))add_by_class, METH_FASTCALL, add_by_class_doc},
    {"rounded_sums", (PyCFunction)(void (*)(void))rounded_sums, METH_FASTCALL, rounded_sums_doc},
    {"pick_by_class", (PyCFunction)(void (*)(void))pick_by_class, METH_FASTCALL, pick_by_class_doc},
    {"reprieve", (PyCFunction)(void (*)(void))reprieve, METH_FASTCALL, reprieve_doc},
    {"victim_losses", (PyCFunction)(void (*)(void))victim_losses, METH_FASTCALL, victim_losses_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "pyscheduler.kernels.compiled", NULL, 0, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_compiled(void)
{
    return PyModuleDef_Init(&module);
}
