/* The machine's own limit for a tree: read, write under a temporary name, rename; one syncfs at the end.
 *
 *     local_tree SOURCE DEST THREADS
 *
 * SOURCE and DEST are directories; DEST exists. The main thread makes the directories and the list,
 * the threads take files from it. No network, no checksum, no second sync: what is left is the file
 * systems. Errors end the program with 1 and name the operation and the file.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 20, PATH_BYTES = 4096, THREADS_MOST = 64 };

static const char *source, *dest;
static char **files; /* relative names */
static size_t file_count, file_room;
static atomic_size_t next_file;

static void *copy_files(void *unused);
static void copy_file(const char *name, char *buffer);
static void list(const char *directory);
static void join(char *path, const char *directory, const char *name);
static void fail(const char *operation, const char *path);

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: local_tree SOURCE DEST THREADS\n");
        return 2;
    }
    source = argv[1];
    dest = argv[2];
    int threads = atoi(argv[3]);
    if (threads < 1 || threads > THREADS_MOST) {
        fprintf(stderr, "THREADS is 1 to %d\n", THREADS_MOST);
        return 2;
    }
    list("");

    pthread_t ids[THREADS_MOST];
    for (int i = 0; i < threads; i++)
        if ((errno = pthread_create(&ids[i], NULL, copy_files, NULL)) != 0)
            fail("start a thread for", source);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);

    int directory = open(dest, O_RDONLY | O_DIRECTORY);
    if (directory < 0 || syncfs(directory) != 0)
        fail("sync", dest);
    return 0;
}

static void *copy_files(void *unused)
{
    (void)unused;
    char *buffer = malloc(BUFFER_BYTES);
    if (!buffer)
        fail("allocate for", source);
    for (size_t i; (i = atomic_fetch_add(&next_file, 1)) < file_count;)
        copy_file(files[i], buffer);
    free(buffer);
    return NULL;
}

static void copy_file(const char *name, char *buffer)
{
    char from[PATH_BYTES], temporary[PATH_BYTES + 8], to[PATH_BYTES];
    join(from, source, name);
    join(to, dest, name);
    strcat(strcpy(temporary, to), ".part");

    int in = open(from, O_RDONLY);
    if (in < 0)
        fail("open", from);
    int out = open(temporary, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (out < 0)
        fail("create", temporary);
    ssize_t got;
    while ((got = read(in, buffer, BUFFER_BYTES)) > 0)
        for (ssize_t done = 0, put; done < got; done += put)
            if ((put = write(out, buffer + done, (size_t)(got - done))) < 0)
                fail("write", temporary);
    if (got < 0)
        fail("read", from);
    close(in);
    if (close(out) != 0)
        fail("close", temporary);
    if (rename(temporary, to) != 0)
        fail("rename", temporary);
}

/* Adds the regular files beneath source/directory and makes its directories beneath dest. */
static void list(const char *directory)
{
    char path[PATH_BYTES];
    join(path, source, directory);
    DIR *handle = opendir(path);
    if (!handle)
        fail("list", path);
    for (struct dirent *entry; (entry = readdir(handle)) != NULL;) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        char name[PATH_BYTES];
        join(name, directory, entry->d_name);
        if (entry->d_type == DT_DIR) {
            join(path, dest, name);
            if (mkdir(path, 0755) != 0)
                fail("make", path);
            list(name);
        } else if (entry->d_type == DT_REG) {
            if (file_count == file_room) {
                file_room = file_room ? 2 * file_room : 1024;
                files = realloc(files, file_room * sizeof *files);
            }
            if (!files || !(files[file_count++] = strdup(name)))
                fail("remember", name);
        }
    }
    closedir(handle);
}

/* path holds PATH_BYTES; an empty directory adds no slash, so relative names stay relative. */
static void join(char *path, const char *directory, const char *name)
{
    int length = snprintf(path, PATH_BYTES, "%s%s%s", directory, *directory ? "/" : "", name);
    if (length >= PATH_BYTES) {
        errno = ENAMETOOLONG;
        fail("name a file beneath", directory);
    }
}

static void fail(const char *operation, const char *path)
{
    fprintf(stderr, "cannot %s %s: %s\n", operation, path, strerror(errno));
    exit(1);
}
