/* Messages with tags: they match by tag, in order within a tag, and wait for no other tag. */
static void tags(void) {
    topo_comm *comm = join(0);
    enum { N = 1 << 20 };
    uint32_t next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    double *in = malloc(sizeof *in * N), *out = calloc(N, sizeof *out);
    for (int i = 0; i < N; i++) in[i] = rank + 0.5;
    uint64_t long_send, sends[4];
    uint32_t sent[4] = {7, 8, 9, 10}, received[4] = {0}, source = 0;
    /* The long message of tag 5 comes first and is received last. */
    CHECK(topo_start_send_tagged(comm, in, N, TOPO_F64, next, 5, &long_send));
    for (int i = 0; i < 4; i++) {
        uint32_t tag = i % 2 == 0 ? 0 : 2147483647;
        CHECK(topo_start_send_tagged(comm, &sent[i], 1, TOPO_U32, next, tag, &sends[i]));
    }
    CHECK(topo_receive_tagged(comm, &received[1], 1, TOPO_U32, before, 2147483647, NULL));
    CHECK(topo_receive_tagged(comm, &received[3], 1, TOPO_U32, TOPO_ANY_RANK, 2147483647, &source));
    EXPECT(source == before);
    CHECK(topo_receive(comm, &received[0], 1, TOPO_U32, before));
    CHECK(topo_receive_tagged(comm, &received[2], 1, TOPO_U32, before, 0, &source));
    EXPECT(source == before && memcmp(sent, received, sizeof sent) == 0);
    CHECK(topo_receive_tagged(comm, out, N, TOPO_F64, before, 5, NULL));
    EXPECT(out[0] == before + 0.5 && out[N - 1] == before + 0.5);
    CHECK(topo_wait(comm, long_send));
    for (int i = 0; i < 4; i++) CHECK(topo_wait(comm, sends[i]));
    /* In a group, also with itself. */
    CHECK(topo_group_start(comm));
    CHECK(topo_send_tagged(comm, &sent[0], 1, TOPO_U32, next, 1));
    CHECK(topo_send_tagged(comm, &sent[1], 1, TOPO_U32, next, 2));
    CHECK(topo_receive_tagged(comm, &received[1], 1, TOPO_U32, before, 2, NULL));
    CHECK(topo_receive_tagged(comm, &received[0], 1, TOPO_U32, before, 1, NULL));
    CHECK(topo_send_tagged(comm, &sent[2], 1, TOPO_U32, rank, 1));
    CHECK(topo_send_tagged(comm, &sent[3], 1, TOPO_U32, rank, 2));
    CHECK(topo_receive_tagged(comm, &received[3], 1, TOPO_U32, rank, 2, NULL));
    CHECK(topo_receive_tagged(comm, &received[2], 1, TOPO_U32, rank, 1, NULL));
    CHECK(topo_group_end(comm));
    EXPECT(memcmp(sent, received, sizeof sent) == 0);
    CHECK(topo_start_send_tagged(comm, &sent[0], 1, TOPO_U32, rank, 1, &sends[0]));
    CHECK(topo_start_send_tagged(comm, &sent[1], 1, TOPO_U32, rank, 2, &sends[1]));
    CHECK(topo_receive_tagged(comm, &received[1], 1, TOPO_U32, rank, 2, NULL));
    CHECK(topo_receive_tagged(comm, &received[0], 1, TOPO_U32, rank, 1, NULL));
    for (int i = 0; i < 2; i++) CHECK(topo_wait(comm, sends[i]));
    EXPECT(memcmp(sent, received, sizeof sent) == 0);
    EXPECT(topo_send_tagged(comm, sent, 1, TOPO_U32, next, 2147483648u) == TOPO_INVALID);
    EXPECT(strstr(topo_last_error(), "tag 2147483648 is too large"));
    CHECK(topo_comm_destroy(comm));
    free(in);
    free(out);
}

/* On a host a tag keeps nothing once its messages were received. Between hosts too many tags end
 * with an error that says so, on all ranks. */
static void many_tags(void) {
    topo_comm *comm = join(0);
    int hosts = getenv("TWO_RANKS_A_HOST") != NULL, code = TOPO_OK;
    uint32_t receiver = hosts ? 2 : 1;
    for (uint32_t tag = 1; tag < 3000 && code == TOPO_OK; tag++) {
        uint32_t sent = tag, received = tag;
        if (rank == 0) code = topo_send_tagged(comm, &sent, 1, TOPO_U32, receiver, tag);
        if (rank == receiver) code = topo_receive_tagged(comm, &received, 1, TOPO_U32, 0, tag, NULL);
        EXPECT(received == tag || code != TOPO_OK);
        if (rank != 0 && rank != receiver) break;
    }
    int fails = hosts && (rank == 0 || rank == receiver);
    EXPECT(code == (fails ? TOPO_FAILED : TOPO_OK));
    if (fails) EXPECT(strstr(topo_last_error(), "use fewer tags"));
    CHECK(topo_comm_destroy(comm));
}
