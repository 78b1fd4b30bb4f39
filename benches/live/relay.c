/*
 * The least that a relay can do: two threads, each with one blocking read and one blocking write.
 * It records nothing. The figures of mcptap are compared with it.
 *
 *   relay pipe COMMAND ARGUMENT...   between this process and the standard streams of a command
 *   relay tcp PORT                   between one connection and another to 127.0.0.1:PORT;
 *                                    prints its own port
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE = 64 << 10 };

struct lane {
    int from, to;
};

static void check(int ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(2);
    }
}

/* Copies until the end of `from`, then closes `to` for writing. */
static void *copy(void *argument)
{
    struct lane *lane = argument;
    char *piece = malloc(PIECE);
    ssize_t length;

    check(piece != NULL, "malloc");
    while ((length = read(lane->from, piece, PIECE)) > 0)
        for (ssize_t at = 0, written; at < length; at += written)
            check((written = write(lane->to, piece + at, length - at)) > 0, "write");
    if (shutdown(lane->to, SHUT_WR) != 0)
        close(lane->to);
    free(piece);
    return NULL;
}

static void relay(struct lane there, struct lane back)
{
    pthread_t thread;

    check(pthread_create(&thread, NULL, copy, &there) == 0, "pthread_create");
    copy(&back);
    pthread_join(thread, NULL);
}

static int pipes(char **command)
{
    int in[2], out[2], status;
    pid_t child;

    check(pipe(in) == 0 && pipe(out) == 0, "pipe");
    check((child = fork()) >= 0, "fork");
    if (child == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        execvp(command[0], command);
        perror(command[0]);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    relay((struct lane){0, in[1]}, (struct lane){out[0], 1});
    check(waitpid(child, &status, 0) == child, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static int tcp(int port)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in there = here;
    socklen_t length = sizeof here;
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0), server = socket(AF_INET, SOCK_STREAM, 0), client;

    there.sin_port = htons(port);
    check(bind(listener, (struct sockaddr *)&here, length) == 0 && listen(listener, 1) == 0, "listen");
    check(getsockname(listener, (struct sockaddr *)&here, &length) == 0, "getsockname");
    printf("127.0.0.1:%d\n", ntohs(here.sin_port));
    fflush(stdout);
    check((client = accept(listener, NULL, NULL)) >= 0, "accept");
    check(connect(server, (struct sockaddr *)&there, sizeof there) == 0, "connect");
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    relay((struct lane){client, server}, (struct lane){server, client});
    return 0;
}

int main(int count, char **arguments)
{
    if (count > 2 && strcmp(arguments[1], "pipe") == 0)
        return pipes(arguments + 2);
    if (count == 3 && strcmp(arguments[1], "tcp") == 0)
        return tcp(atoi(arguments[2]));
    fprintf(stderr, "relay pipe COMMAND ARGUMENT... | relay tcp PORT\n");
    return 2;
}
