r"""One sum over many owners, and nothing else: masks that only a few owners, the openers, remove.

::

    owner i      y_i = (x_i, 0, 0) - sum over streams k of stream(s_ik)      mod 2^64
                 s_ik: 32 fresh bytes, sealed to the 2s + 1 openers that hold stream k
    curator      keeps the uploads, fixes a set U of a quorum or more, asks the openers
    opener j     H_k = sum over i in U of stream(s_ik) for the streams it holds; for one U, ever
    curator      sum over U of y_i + sum over k of H_k = sum over U of (x_i, 0, 0)

``x_i`` is an owner's packed vector of int64 with its share of the noise. The two zeros at its end
are guards: if their sum is not zero, the messages do not belong together.

With c openers, s of which may be lost permanently, there is a stream for each 2s + 1 of them. The
other c - 2s - 1 do not hold it; so if at most that many collude, one stream stays unknown until an
honest opener answers. With s = 0 each opener holds one stream, and answers at once: showing two
sets to two honest openers reveals nothing, as each stream cancels over its own set only. With s > 0
a stream has several holders, which might be shown different sets. So each opener first votes for
one set, and answers on c - s votes: any two groups of that size share c - 2s openers, one of them
honest.

Against the curator with any ``colluders`` owners, this reveals one sum over the uploads of one set,
at least ``quorum - colluders`` of which come from honest owners. It rests on X25519 or ML-KEM-768
for the seals, on AES-256 and HKDF-SHA256 for the streams, on ECDSA P-256. Not protected: a
participant can make the sum useless, or stop it, and is not always identified.

Modules: `terms` (parties and their streams), `streams` (masks), `seals`, `sum_messages` (with their
bytes), `masking` (an owner), `opening` (an opener), `pooling` (the curator), `contribution` (an
owner's moments, noised and masked, with their receipt). All are pure: entropy, keys and earlier
actions are arguments.

Source: additive sharing by seeds as in Prio (Corrigan-Gibbs and Boneh 2017), replicated as in
Cramer, Damgard and Ishai (2005); decision 129 has the steps of the proof and the checks.
"""
