"""What is true of every objective, checked case by case with the shared harness."""

import numpy as np

import harness
from tfdistill import losses

random = np.random.default_rng(20)


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


BATCH, HEADS, TOKENS, WIDTH, CLASSES = 3, 2, 5, 4, 3
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]], np.int32)
TOKEN_WEIGHTS = np.array([[0.5, 2, 1, 1, 0.3], [3, 3, 3, 0, 0], [0.25, 0, 0, 0, 0]], np.float32)
SAMPLE_WEIGHTS = np.array([1, 0.5, 0, 2, 1.5], np.float32)
SCORES = (normal(BATCH, HEADS, TOKENS, TOKENS), normal(BATCH, HEADS, TOKENS, TOKENS))
STATES = (normal(BATCH, TOKENS, WIDTH), normal(BATCH, TOKENS, WIDTH))
LOGITS = (2 * normal(5, CLASSES), 2 * normal(5, CLASSES))


def attention_loop(teacher, student, mask):
    total = weight_sum = 0.0
    for b in range(teacher.shape[0]):
        for k in range(teacher.shape[1]):
            for i in range(teacher.shape[2]):
                for j in range(teacher.shape[3]):
                    weight = (float(mask[b, i]) * float(mask[b, j])) ** 0.5
                    error = float(student[b, k, i, j]) - float(teacher[b, k, i, j])
                    total += weight * error**2
                    weight_sum += weight
    return total / weight_sum


def attention_reference_loop(teacher, student, mask):
    def seen(score, key_mask):
        score = float(score) + (0.0 if key_mask else -1e4)
        return 0.0 if score <= -1e2 else score

    total = 0.0
    for b in range(teacher.shape[0]):
        for k in range(teacher.shape[1]):
            for i in range(teacher.shape[2]):
                for j in range(teacher.shape[3]):
                    error = seen(student[b, k, i, j], mask[b, j]) - seen(
                        teacher[b, k, i, j], mask[b, j]
                    )
                    total += float(max(mask[b])) * error**2
    return total / teacher.size


def hidden_loop(teacher, student, mask):
    total = weight_sum = 0.0
    for b in range(teacher.shape[0]):
        for i in range(teacher.shape[1]):
            for e in range(teacher.shape[2]):
                total += (
                    float(mask[b, i]) * (float(student[b, i, e]) - float(teacher[b, i, e])) ** 2
                )
                weight_sum += float(mask[b, i])
    return total / weight_sum


def hidden_reference_loop(teacher, student, mask):
    total = 0.0
    for b in range(teacher.shape[0]):
        for i in range(teacher.shape[1]):
            for e in range(teacher.shape[2]):
                error = float(student[b, i, e]) - float(teacher[b, i, e])
                total += float(max(mask[b])) * error**2
    return total / teacher.size


def cosine_loop(teacher, student, mask):
    total = weight_sum = 0.0
    for b in range(teacher.shape[0]):
        for i in range(teacher.shape[1]):
            t, s = teacher[b, i].astype(np.float64), student[b, i].astype(np.float64)
            cosine = float(t @ s) / float(np.sqrt(t @ t) * np.sqrt(s @ s))
            total += float(mask[b, i]) * (1.0 - cosine)
            weight_sum += float(mask[b, i])
    return total / weight_sum


def probabilities(logits, temperature):
    exponentials = [float(np.exp(float(z) / temperature)) for z in logits]
    return [e / sum(exponentials) for e in exponentials]


def distribution_loop(term, temperature=1.0, reference=False, factor=1.0):
    """A loop over examples of sum_c term(p_c, q_c)."""

    def loop(teacher, student, weights):
        total = 0.0
        for b in range(teacher.shape[0]):
            p = probabilities(teacher[b], temperature)
            q = probabilities(student[b], temperature)
            total += float(weights[b]) * sum(term(p[c], q[c]) for c in range(len(p)))
        divisor = float(teacher.size) if reference else float(weights.sum())
        return factor * total / divisor

    return loop


def logit_loop(reference):
    def loop(teacher, student, weights):
        total = 0.0
        for b in range(teacher.shape[0]):
            for c in range(teacher.shape[1]):
                total += float(weights[b]) * (float(student[b, c]) - float(teacher[b, c])) ** 2
        divisor = teacher.shape[0] if reference else float(weights.sum())
        return total / teacher.shape[1] / divisor

    return loop


def entropy(temperature=1.0, reference=False, factor=1.0):
    loop = distribution_loop(harness.cross_entropy_term, temperature, reference, factor)
    return lambda teacher, weights: loop(teacher, teacher, weights)


def token_case(name, objective, loop, batch, axes, counts, **kwargs):
    return harness.ObjectiveCase(
        name, objective, loop, batch, harness.more_tokens(*axes), counts, **kwargs
    )


def token_count(mask):
    return mask.sum(axis=1)


def pair_count(mask):
    return np.sqrt(mask[:, :, None] * mask[:, None, :]).sum(axis=(1, 2))


def example_count(mask):
    return np.ones(len(mask))


def logit_case(name, objective, loop, minimum=None, **options):
    def call(teacher, student, weights):
        return objective(teacher, student, sample_weight=weights, **options)

    reference = options.get("reduction") == "reference"
    return harness.ObjectiveCase(
        name,
        call,
        loop,
        (*LOGITS, SAMPLE_WEIGHTS),
        harness.more_examples,
        example_count if reference else lambda weights: weights,
        minimum or (lambda teacher, weights: 0.0),
        size_is_divisor=reference,
    )


def reference(objective):
    return lambda teacher, student, mask: objective(teacher, student, mask, reduction="reference")


CASES = [
    # Weights hold zeros where a mask does, and a mask is one of whole numbers.
    token_case(
        "attention",
        losses.attention_score_mse,
        attention_loop,
        (*SCORES, TOKEN_WEIGHTS),
        (2, 3),
        pair_count,
    ),
    token_case(
        "attention_reference",
        reference(losses.attention_score_mse),
        attention_reference_loop,
        (*SCORES, TOKEN_WEIGHTS),
        (2, 3),
        example_count,
        size_is_divisor=True,
    ),
    token_case(
        "hidden", losses.hidden_state_mse, hidden_loop, (*STATES, TOKEN_WEIGHTS), (1,), token_count
    ),
    token_case(
        "hidden_reference",
        reference(losses.hidden_state_mse),
        hidden_reference_loop,
        (*STATES, MASK),
        (1,),
        example_count,
        size_is_divisor=True,
    ),
    token_case("cosine", losses.cosine_distance, cosine_loop, (*STATES, MASK), (1,), token_count),
    *(
        logit_case(
            objective.__name__ + suffix,
            objective,
            distribution_loop(term, temperature, *divided),
            entropy(temperature, *divided) if objective is losses.soft_cross_entropy else None,
            **options,
        )
        for objective, term in (
            (losses.soft_cross_entropy, harness.cross_entropy_term),
            (losses.kl_divergence, harness.kl_term),
        )
        for suffix, temperature, divided, options in (
            ("", 1.0, (), {}),
            ("_t3", 3.0, (False, 9.0), {"temperature": 3.0, "scale_by_t2": True}),
            ("_reference", 2.0, (True,), {"temperature": 2.0, "reduction": "reference"}),
        )
    ),
    logit_case("logit_mse", losses.logit_mse, logit_loop(False)),
    logit_case(
        "logit_mse_reference",
        losses.logit_mse,
        logit_loop(True),
        reduction="reference",
    ),
]


@harness.every_check(CASES)
def test_it_is_an_objective(case, check):
    check(case)


# Objectives whose cases stand in a file of their own, which checks that they are complete.
ELSEWHERE = {
    "test_patient.py": ("patient_mse",),
    "test_relations.py": ("relation_kl",),
    "test_vectors.py": (*("similarity_kl", "vector_cosine", "vector_mse"),),
    "test_features.py": (
        *("attention_cross_entropy", "attention_kl_divergence"),
        *("feature_map_mse", "feature_mean_mse", "feature_variance_mae"),
    ),
}


def test_every_objective_has_a_case():
    elsewhere = {name for names in ELSEWHERE.values() for name in names}
    functions = {
        name
        for name in losses.__all__
        if name.endswith(("_mse", "_mae", "_kl", "_divergence", "_entropy", "_distance", "_cosine"))
    } - elsewhere
    stems = {
        "attention_score_mse": "attention",
        "hidden_state_mse": "hidden",
        "cosine_distance": "cosine",
        "soft_cross_entropy": "soft_cross_entropy",
        "kl_divergence": "kl",
        "logit_mse": "logit_mse",
    }
    assert functions == set(stems)
    names = [case.name for case in CASES]
    for stem in stems.values():
        assert any(name.startswith(stem) for name in names)
