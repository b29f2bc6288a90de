/* Banditron, also on sparse rows, and Conservative OVA as a C programmer would write them: one plain loop each, nothing generic,
   nothing checked.

   The yardstick of throughput.py. Weights are float32, (classes, features); the draws are those of onebit/contract/draws.py and
   ties are broken as in onebit/contract/choices.py, so that both make the same decisions until the first near-tie.

   gcc -O3 -march=native -ffast-math -shared -fPIC reference.c -o reference.so -lm
*/

#include <math.h>
#include <stdint.h>

enum { PLAY = 0, TIE = 1 };

static const uint64_t GOLDEN = 0x9E3779B97F4A7C15ull;

static inline uint64_t splitmix(uint64_t state) {
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ull;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBull;
    return state ^ (state >> 31);
}

/* The number at this index of the deciding stream (number 0) of round `id`. */
static inline double uniform(uint64_t key, uint64_t id, uint64_t index) {
    uint64_t state = splitmix(key + GOLDEN * id);
    state = splitmix(state + GOLDEN * (index + 1));
    return (double)(state >> 11) * (1.0 / 9007199254740992.0);
}

static inline float dot(const float *restrict a, const float *restrict b, int64_t count) {
    float total = 0.0f;
    for (int64_t place = 0; place < count; place++) total += a[place] * b[place];
    return total;
}

static inline void add(float *restrict weights, float step, const float *restrict x, int64_t count) {
    for (int64_t place = 0; place < count; place++) weights[place] += step * x[place];
}

/* The label with the highest score, ties at random. */
static inline int64_t greedy_label(const double *scores, int64_t classes, uint64_t key, uint64_t id) {
    double top = scores[0];
    for (int64_t label = 1; label < classes; label++) top = scores[label] > top ? scores[label] : top;
    double least = top - 1e-12 * (1.0 + fabs(top));
    int64_t tied = 0;
    for (int64_t label = 0; label < classes; label++) tied += scores[label] >= least;
    int64_t place = tied == 1 ? 0 : (int64_t)(uniform(key, id, TIE) * (double)tied);
    for (int64_t label = 0; label < classes; label++)
        if (scores[label] >= least && place-- == 0) return label;
    return 0;
}

/* The greedy label, or with the probability of exploration any. */
static inline int64_t played_label(int64_t greedy, int64_t classes, double exploration, uint64_t key, uint64_t id) {
    double drawn = uniform(key, id, PLAY);
    int64_t label = drawn < exploration ? (int64_t)((double)classes * drawn / exploration) : greedy;
    return label > classes - 1 ? classes - 1 : label;
}

/* The number of mistakes of Banditron on the whole stream. */
int64_t banditron(const float *X, const int64_t *y, float *W, double *scores, int64_t rounds, int64_t classes,
                  int64_t features, double exploration, uint64_t key) {
    int64_t mistakes = 0;
    for (int64_t now = 0; now < rounds; now++) {
        const float *x = X + now * features;
        for (int64_t label = 0; label < classes; label++) scores[label] = dot(W + label * features, x, features);
        int64_t greedy = greedy_label(scores, classes, key, (uint64_t)now);
        int64_t label = played_label(greedy, classes, exploration, key, (uint64_t)now);
        int right = label == y[now];
        mistakes += !right;
        double probability = exploration / (double)classes + (label == greedy ? 1.0 - exploration : 0.0);
        if (right && label == greedy) {
            add(W + label * features, (float)(1.0 / probability - 1.0), x, features);
        } else {
            add(W + greedy * features, -1.0f, x, features);
            if (right) add(W + label * features, (float)(1.0 / probability), x, features);
        }
    }
    return mistakes;
}

/* The same on CSR rows. Weights are (features, classes), so that those of a feature are one line of memory; sums are in double, as onebit's. */
int64_t banditron_sparse(const float *values, const int32_t *columns, const int64_t *starts, const int64_t *y, float *W,
                         double *scores, int64_t rounds, int64_t classes, double exploration, uint64_t key) {
    int64_t mistakes = 0;
    for (int64_t now = 0; now < rounds; now++) {
        for (int64_t label = 0; label < classes; label++) scores[label] = 0.0;
        for (int64_t entry = starts[now]; entry < starts[now + 1]; entry++) {
            const float *restrict line = W + (int64_t)columns[entry] * classes;
            double value = values[entry];
            for (int64_t label = 0; label < classes; label++) scores[label] += value * line[label];
        }
        int64_t greedy = greedy_label(scores, classes, key, (uint64_t)now);
        int64_t label = played_label(greedy, classes, exploration, key, (uint64_t)now);
        int right = label == y[now];
        mistakes += !right;
        double probability = exploration / (double)classes + (label == greedy ? 1.0 - exploration : 0.0);
        double step = right ? 1.0 / probability : 0.0;
        if (label == greedy) step -= 1.0;
        for (int64_t entry = starts[now]; entry < starts[now + 1]; entry++) {
            float *restrict line = W + (int64_t)columns[entry] * classes;
            line[label] += (float)(step * values[entry]);
            if (label != greedy) line[greedy] -= values[entry];
        }
    }
    return mistakes;
}

/* The number of mistakes of Conservative OVA, PA-I, on the whole stream. */
int64_t conservative_ova(const float *X, const int64_t *y, float *W, double *scores, int64_t rounds, int64_t classes,
                         int64_t features, double aggressiveness, uint64_t key) {
    int64_t mistakes = 0;
    for (int64_t now = 0; now < rounds; now++) {
        const float *x = X + now * features;
        double norm = dot(x, x, features);
        for (int64_t label = 0; label < classes; label++) scores[label] = dot(W + label * features, x, features);
        int64_t played = greedy_label(scores, classes, key, (uint64_t)now);
        int right = played == y[now];
        mistakes += !right;
        for (int64_t label = 0; label < classes; label++) {
            if (!right && label != played) continue;
            double sign = right && label == played ? 1.0 : -1.0;
            double loss = 1.0 - sign * scores[label];
            if (loss <= 0.0) continue;
            double step = loss / norm < aggressiveness ? loss / norm : aggressiveness;
            add(W + label * features, (float)(sign * step), x, features);
        }
    }
    return mistakes;
}
