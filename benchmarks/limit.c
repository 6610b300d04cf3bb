/* The best plain loop: Delaytron with delays and step 1, many runs over one row order, one thread, float64.
 *
 * This is the yardstick, not the product: it knows one learner, checks nothing, and keeps nothing but the
 * weights and two small columns per round (so K < 65536). Compile with
 *     gcc -O3 -march=native -ffp-contract=off -shared -fPIC limit.c
 * No fast math and no fused multiply-add, so that it does the arithmetic the package promises to do.
 *
 * Rounds are 0..T-1 here. Run k has T+1 starts and T rounds in order of arrival: order[starts[t]..starts[t+1]-1]
 * are the rounds, ascending, whose feedback is applied before round t predicts. A block of rows goes to one run
 * before it goes to the next, so that the run's weights stay in the nearest cache and the rows in the second.
 * (Tried and dropped: prefetching the rows of the next feedback, scoring two rows per pass over the weights with
 * only the changed classes scored again, smaller tiles in alternating order. None was clearly faster.)
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef double v4 __attribute__((vector_size(32)));                          /* aligned: our own weights */
typedef double u4 __attribute__((vector_size(32), aligned(8), may_alias));    /* unaligned: the caller's rows */
typedef long long i4 __attribute__((vector_size(32)));
#define INLINE static inline __attribute__((always_inline))

/* Keep a loaded vector in its register: gcc would rather load x again for every class. */
#define HOLD(v) __asm__("" : "+x"(v))

/* Rows given to one run at a time; chosen by (noisy) measurement on Zen 3, 32 KB + 512 KB of cache. */
enum { DENSE_BLOCK = 128, SPARSE_BLOCK = 1024 };

/* What a run remembers of an open round. */
typedef struct { uint16_t greedy, label; } open_round;

typedef struct {
    int K;
    double p_greedy, p_other, gain_greedy, gain_other;
    double *below;                        /* below[g] = sum of g exploration terms, added in class order */
} policy;

static policy make_policy(int K, double gamma) {
    policy p = {.K = K, .p_other = gamma / K};
    p.p_greedy = (1 - gamma) + p.p_other;
    p.gain_greedy = 1 / p.p_greedy - 1;   /* label = greedy and correct: + x/P and - x on one row of W */
    p.gain_other = 1 / p.p_other;
    p.below = malloc((K + 1) * sizeof(double));
    p.below[0] = 0;
    for (int r = 0; r < K; r++) p.below[r + 1] = p.below[r] + p.p_other;
    return p;
}

/* The first r with u < P(0) + ... + P(r): the same partial sums as a loop over the classes, found faster. */
INLINE int draw(const policy *p, int greedy, double u) {
    double upto = p->below[greedy] + p->p_greedy;
    if (__builtin_expect(u >= p->below[greedy] && u < upto, 1)) return greedy;
    if (u < p->below[greedy]) {
        int r = 0;
        while (u >= p->below[r + 1]) r++;
        return r;
    }
    for (int r = greedy + 1; r < p->K; r++) {
        upto += p->p_other;
        if (u < upto) return r;
    }
    return p->K - 1;
}

INLINE int argmax(const double *s, int K) {
    int best = 0;
    double top = s[0];
    for (int r = 1; r < K; r++) {
        best = s[r] > top ? r : best;
        top = s[r] > top ? s[r] : top;
    }
    return best;
}

static void *zeros(size_t bytes) {
    bytes = (bytes + 63) / 64 * 64;
    void *p = aligned_alloc(64, bytes);
    memset(p, 0, bytes);
    return p;
}

/* ------------------------------------------------------------------------------------------------ dense rows */

/* Scores of N classes at once: LANES registers of four lanes for each class, x loaded once for all of them. */
#define TILE(N, LANES)                                                                                      \
    INLINE void tile_##N(const double *W, const double *x, int d, int stride, double *scores) {             \
        v4 sum[N][LANES] = {0};                                                                             \
        int j = 0;                                                                                          \
        _Pragma("GCC unroll 2") for (; j + 4 * LANES <= d; j += 4 * LANES)                                  \
            _Pragma("GCC unroll 4") for (int l = 0; l < LANES; l++) {                                       \
                v4 xj = *(const u4 *)(x + j + 4 * l);                                                       \
                HOLD(xj);                                                                                   \
                _Pragma("GCC unroll 16") for (int r = 0; r < N; r++)                                        \
                    sum[r][l] += *(const v4 *)(W + (size_t)r * stride + j + 4 * l) * xj;                    \
            }                                                                                               \
        _Pragma("GCC unroll 16") for (int r = 0; r < N; r++) {                                              \
            v4 all = sum[r][0];                                                                             \
            _Pragma("GCC unroll 4") for (int l = 1; l < LANES; l++) all += sum[r][l];                       \
            all += __builtin_shuffle(all, (i4){2, 3, 0, 1});                                                \
            double s = all[0] + all[1];                                                                     \
            for (int i = j; i < d; i++) s += W[(size_t)r * stride + i] * x[i];                              \
            scores[r] = s;                                                                                  \
        }                                                                                                   \
    }
TILE(1, 4) TILE(2, 4) TILE(3, 2) TILE(4, 2) TILE(5, 1) TILE(6, 1) TILE(7, 1) TILE(8, 1) TILE(9, 1) TILE(10, 1)

INLINE void dense_scores(const double *W, const double *x, int d, int stride, int K, double *scores) {
    int r = 0;
    while (r < K) {
        int left = K - r, n = left <= 10 ? left : left < 20 ? left / 2 : 10;
        const double *w = W + (size_t)r * stride;
        switch (n) {
        case 1: tile_1(w, x, d, stride, scores + r); break;
        case 2: tile_2(w, x, d, stride, scores + r); break;
        case 3: tile_3(w, x, d, stride, scores + r); break;
        case 4: tile_4(w, x, d, stride, scores + r); break;
        case 5: tile_5(w, x, d, stride, scores + r); break;
        case 6: tile_6(w, x, d, stride, scores + r); break;
        case 7: tile_7(w, x, d, stride, scores + r); break;
        case 8: tile_8(w, x, d, stride, scores + r); break;
        case 9: tile_9(w, x, d, stride, scores + r); break;
        default: tile_10(w, x, d, stride, scores + r);
        }
        r += n;
    }
}

INLINE void dense_add(double *restrict w, const double *restrict x, double c, int d) {
    int j = 0;
    _Pragma("GCC unroll 4") for (; j + 4 <= d; j += 4) *(v4 *)(w + j) += c * *(const u4 *)(x + j);
    for (; j < d; j++) w[j] += c * x[j];
}

long dense(const double *X, const int *y, const int *starts, const int *order, const double *u, int T, int d,
           int K, int runs, double gamma, double *W_out, int *labels_out, long *mistakes) {
    policy p = make_policy(K, gamma);
    int stride = (d + 3) / 4 * 4;
    size_t size = ((size_t)K * stride + 7) / 8 * 8;
    double *weights = zeros(runs * size * sizeof(double)), *scores = zeros(K * sizeof(double));
    open_round *open = zeros((size_t)runs * T * sizeof(open_round));
    long total = 0;
    memset(mistakes, 0, runs * sizeof(long));
    for (int from = 0; from < T; from += DENSE_BLOCK) {
        int to = from + DENSE_BLOCK < T ? from + DENSE_BLOCK : T;
        for (int run = 0; run < runs; run++) {
            const int *start = starts + (size_t)run * (T + 1), *ord = order + (size_t)run * T;
            const double *draws = u + (size_t)run * T;
            open_round *o = open + (size_t)run * T;
            double *W = weights + run * size;
            long wrong = 0;
            for (int t = from; t < to; t++) {
                for (int a = start[t]; a < start[t + 1]; a++) {
                    int s = ord[a], g = o[s].greedy, l = o[s].label;
                    const double *x = X + (size_t)s * d;
                    int right = l == y[s];
                    dense_add(W + (size_t)g * stride, x, right && l == g ? p.gain_greedy : -1.0, d);
                    if (right && l != g) dense_add(W + (size_t)l * stride, x, p.gain_other, d);
                }
                dense_scores(W, X + (size_t)t * d, d, stride, K, scores);
                int g = argmax(scores, K), l = draw(&p, g, draws[t]);
                o[t] = (open_round){g, l};
                wrong += l != y[t];
            }
            mistakes[run] += wrong;
        }
    }
    for (int run = 0; run < runs; run++) {
        total += mistakes[run];
        for (int r = 0; W_out && r < K; r++)
            memcpy(W_out + ((size_t)run * K + r) * d, weights + run * size + (size_t)r * stride, d * sizeof(double));
    }
    for (size_t i = 0; labels_out && i < (size_t)runs * T; i++) labels_out[i] = open[i].label;
    free(weights), free(scores), free(open), free(p.below);
    return total;
}

/* -------------------------------------------------------------------------------------------- sparse (CSR) rows */

/* Scores of 4N classes: one padded row of W for each nonzero, accumulators in registers, two lanes over nonzeros. */
#define GATHER(N)                                                                                           \
    INLINE void gather_##N(const double *W, const int *idx, const double *val, int n, int stride, double *s) {\
        v4 even[N] = {0}, odd[N] = {0};                                                                     \
        int i = 0;                                                                                          \
        _Pragma("GCC unroll 2") for (; i + 2 <= n; i += 2) {                                                \
            const double *a = W + (size_t)idx[i] * stride, *b = W + (size_t)idx[i + 1] * stride;            \
            double x = val[i], z = val[i + 1];                                                              \
            _Pragma("GCC unroll 4") for (int r = 0; r < N; r++) {                                           \
                even[r] += *(const v4 *)(a + 4 * r) * x;                                                    \
                odd[r] += *(const v4 *)(b + 4 * r) * z;                                                     \
            }                                                                                               \
        }                                                                                                   \
        if (i < n) {                                                                                        \
            const double *a = W + (size_t)idx[i] * stride;                                                  \
            for (int r = 0; r < N; r++) even[r] += *(const v4 *)(a + 4 * r) * val[i];                       \
        }                                                                                                   \
        for (int r = 0; r < N; r++) *(v4 *)(s + 4 * r) = even[r] + odd[r];                                  \
    }
GATHER(1) GATHER(2) GATHER(3) GATHER(4)

INLINE void sparse_scores(const double *W, const int *idx, const double *val, int n, int stride, double *scores) {
    for (int r = 0; r < stride; r += 16) {
        int left = (stride - r) / 4;
        if (left == 1) gather_1(W + r, idx, val, n, stride, scores + r);
        else if (left == 2) gather_2(W + r, idx, val, n, stride, scores + r);
        else if (left == 3) gather_3(W + r, idx, val, n, stride, scores + r);
        else gather_4(W + r, idx, val, n, stride, scores + r);
    }
}

INLINE void sparse_add(double *W, const int *idx, const double *val, int n, int stride, double c) {
    _Pragma("GCC unroll 4") for (int i = 0; i < n; i++) W[(size_t)idx[i] * stride] += c * val[i];
}

long sparse(const long *indptr, const int *indices, const double *data, const int *y, const int *starts,
            const int *order, const double *u, int T, int d, int K, int runs, double gamma, double *W_out,
            int *labels_out, long *mistakes) {
    policy p = make_policy(K, gamma);
    int stride = (K + 3) / 4 * 4;
    size_t size = ((size_t)d * stride + 7) / 8 * 8;
    double *weights = zeros(runs * size * sizeof(double)), *scores = zeros((stride + 16) * sizeof(double));
    open_round *open = zeros((size_t)runs * T * sizeof(open_round));
    long total = 0;
    memset(mistakes, 0, runs * sizeof(long));
    for (int from = 0; from < T; from += SPARSE_BLOCK) {
        int to = from + SPARSE_BLOCK < T ? from + SPARSE_BLOCK : T;
        for (int run = 0; run < runs; run++) {
            const int *start = starts + (size_t)run * (T + 1), *ord = order + (size_t)run * T;
            const double *draws = u + (size_t)run * T;
            open_round *o = open + (size_t)run * T;
            double *W = weights + run * size;
            long wrong = 0;
            for (int t = from; t < to; t++) {
                for (int a = start[t]; a < start[t + 1]; a++) {
                    int s = ord[a], g = o[s].greedy, l = o[s].label, n = indptr[s + 1] - indptr[s];
                    const int *idx = indices + indptr[s];
                    const double *val = data + indptr[s];
                    int right = l == y[s];
                    sparse_add(W + g, idx, val, n, stride, right && l == g ? p.gain_greedy : -1.0);
                    if (right && l != g) sparse_add(W + l, idx, val, n, stride, p.gain_other);
                }
                sparse_scores(W, indices + indptr[t], data + indptr[t], indptr[t + 1] - indptr[t], stride, scores);
                int g = argmax(scores, K), l = draw(&p, g, draws[t]);
                o[t] = (open_round){g, l};
                wrong += l != y[t];
            }
            mistakes[run] += wrong;
        }
    }
    for (int run = 0; run < runs; run++) {
        total += mistakes[run];
        for (int r = 0; W_out && r < K; r++)
            for (int j = 0; j < d; j++)
                W_out[((size_t)run * K + r) * d + j] = weights[run * size + (size_t)j * stride + r];
    }
    for (size_t i = 0; labels_out && i < (size_t)runs * T; i++) labels_out[i] = open[i].label;
    free(weights), free(scores), free(open), free(p.below);
    return total;
}
