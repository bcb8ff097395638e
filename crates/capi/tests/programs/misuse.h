/* Handles, works and numbers that are wrong are errors with texts of their own. */
static void *destroys(void *of) {
    return (void *)(intptr_t)topo_comm_destroy(of);
}

static void misuse(void) {
    topo_comm *comm = join(0), *other = NULL;
    float value = 1;
    uint64_t works[3] = {0};
    size_t at = 9;
    EXPECT(topo_comm_init(&other, &id, 0, 4294967295u, NULL) == TOPO_INVALID);
    EXPECT(strstr(topo_last_error(), "4294967295 ranks are too many, expected at most 65536"));
    int code = topo_run(comm, TOPO_ALL_GATHER, &value, &value, SIZE_MAX, TOPO_F32, TOPO_SUM, 0);
    EXPECT(code == TOPO_INVALID);
    for (int i = 0; i < 3; i++)
        CHECK(topo_start(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32,
                         TOPO_MAXIMUM, 0, &works[i]));
    CHECK(topo_wait_any(comm, works, 3, &at));
    EXPECT(at < 3);
    EXPECT(topo_wait(comm, works[at]) == TOPO_INVALID);
    EXPECT(strstr(topo_last_error(), "waited for once"));
    EXPECT(topo_wait_all(comm, works, 3) == TOPO_INVALID);
    CHECK(topo_start(comm, TOPO_ALL_REDUCE, &value, &value, 1, TOPO_F32,
                     TOPO_MAXIMUM, 0, &works[0]));
    works[1] = works[2] = 0;
    CHECK(topo_wait_all(comm, works, 3));
    CHECK(topo_wait_all(comm, NULL, 0));
    EXPECT(topo_wait_any(comm, &works[1], 2, &at) == TOPO_INVALID);
    EXPECT(topo_wait_any(comm, works, 1, NULL) == TOPO_INVALID);
    EXPECT(topo_wait_all(comm, NULL, 2) == TOPO_INVALID);
    EXPECT(topo_test(comm, 99999) == TOPO_INVALID && strstr(topo_last_error(), "not started"));
    /* Ids that nobody joins: more than there are descriptors, but never at once. */
    topo_id own;
    struct rlimit few = {256, 256};
    EXPECT(setrlimit(RLIMIT_NOFILE, &few) == 0);
    for (int i = 0; i < 2000; i++) {
        CHECK(topo_unique_id(&own, NULL));
        CHECK(topo_unique_id_free(&own));
    }
    EXPECT(topo_unique_id_free(&own) == TOPO_INVALID && topo_unique_id_free(NULL) == TOPO_INVALID);
    EXPECT(strcmp(topo_result_text(TOPO_TIMEOUT), "a rank waited too long") == 0);
    EXPECT(strcmp(topo_result_text((topo_result)77), "no topo_result") == 0);
    /* Two threads destroy; one does, and neither nor any later call touches freed memory. */
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, destroys, comm) == 0);
    int here = topo_comm_destroy(comm);
    void *there;
    pthread_join(thread, &there);
    EXPECT((here == TOPO_OK) != ((intptr_t)there == TOPO_OK));
    EXPECT(topo_comm_destroy(comm) == TOPO_INVALID);
    EXPECT(strstr(topo_last_error(), "comm is no communicator"));
    EXPECT(topo_send(comm, &value, 1, TOPO_F32, 0) == TOPO_INVALID);
    EXPECT(topo_wait(comm, 1) == TOPO_INVALID && topo_comm_rank(comm) == -1);
    EXPECT(topo_comm_abort((topo_comm *)&value) == TOPO_INVALID);
    EXPECT(topo_comm_destroy((topo_comm *)(uintptr_t)0xdeadbeef) == TOPO_INVALID);
}
