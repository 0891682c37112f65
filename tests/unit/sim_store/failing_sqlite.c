/* A VFS that forwards to the default one and counts writes and unlocks; a heap that counts
 * requests.
 *
 *   struct failing_file | the default VFS's own file object, right behind it
 *
 * State is global: SQLite's VFS and heap are global too, and a test program has one thread.
 */
#include "failing_sqlite.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

struct failing_file {
  sqlite3_file base;
};

static struct {
  long until;
  bool for_good, happened;
} writes, memory, unlocks;

static void (*unlock_act)(void *context);
static void *unlock_context;

static sqlite3_vfs *real_vfs;
static sqlite3_vfs failing_vfs;
static sqlite3_mem_methods real_memory;

/* Counts one request of a kind; true when it must fail. */
#define MUST_FAIL(kind)                                                        \
  ((kind).until > 0 && (--(kind).until == 0)                                   \
       ? ((kind).until = (kind).for_good ? 1 : 0, (kind).happened = true)      \
       : false)

static sqlite3_file *real_of(sqlite3_file *file)
{
  return (sqlite3_file *)((struct failing_file *)file + 1);
}

/* ---- file methods ---- */

static int file_close(sqlite3_file *file)
{
  return real_of(file)->pMethods->xClose(real_of(file));
}
static int file_read(sqlite3_file *file, void *out, int bytes, sqlite3_int64 offset)
{
  return real_of(file)->pMethods->xRead(real_of(file), out, bytes, offset);
}
static int file_write(sqlite3_file *file, const void *data, int bytes, sqlite3_int64 offset)
{
  if (MUST_FAIL(writes)) return SQLITE_FULL;
  return real_of(file)->pMethods->xWrite(real_of(file), data, bytes, offset);
}
static int file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
  return real_of(file)->pMethods->xTruncate(real_of(file), size);
}
static int file_sync(sqlite3_file *file, int flags)
{
  return real_of(file)->pMethods->xSync(real_of(file), flags);
}
static int file_size(sqlite3_file *file, sqlite3_int64 *size)
{
  return real_of(file)->pMethods->xFileSize(real_of(file), size);
}
static int file_lock(sqlite3_file *file, int level)
{
  return real_of(file)->pMethods->xLock(real_of(file), level);
}
static int file_unlock(sqlite3_file *file, int level)
{
  const int code = real_of(file)->pMethods->xUnlock(real_of(file), level);
  if (level == SQLITE_LOCK_NONE && MUST_FAIL(unlocks)) unlock_act(unlock_context);
  return code;
}
static int file_reserved(sqlite3_file *file, int *out)
{
  return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out);
}
static int file_control(sqlite3_file *file, int operation, void *argument)
{
  return real_of(file)->pMethods->xFileControl(real_of(file), operation, argument);
}
static int file_sector(sqlite3_file *file)
{
  return real_of(file)->pMethods->xSectorSize(real_of(file));
}
static int file_device(sqlite3_file *file)
{
  return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}
static int file_shm_map(sqlite3_file *file, int page, int bytes, int extend, void volatile **out)
{
  return real_of(file)->pMethods->xShmMap(real_of(file), page, bytes, extend, out);
}
static int file_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
  return real_of(file)->pMethods->xShmLock(real_of(file), offset, n, flags);
}
static void file_shm_barrier(sqlite3_file *file)
{
  real_of(file)->pMethods->xShmBarrier(real_of(file));
}
static int file_shm_unmap(sqlite3_file *file, int remove)
{
  return real_of(file)->pMethods->xShmUnmap(real_of(file), remove);
}

static const sqlite3_io_methods file_methods = {
  .iVersion = 2, .xClose = file_close, .xRead = file_read, .xWrite = file_write,
  .xTruncate = file_truncate, .xSync = file_sync, .xFileSize = file_size, .xLock = file_lock,
  .xUnlock = file_unlock, .xCheckReservedLock = file_reserved, .xFileControl = file_control,
  .xSectorSize = file_sector, .xDeviceCharacteristics = file_device, .xShmMap = file_shm_map,
  .xShmLock = file_shm_lock, .xShmBarrier = file_shm_barrier, .xShmUnmap = file_shm_unmap};

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
  (void)vfs;
  const int code = real_vfs->xOpen(real_vfs, name, real_of(file), flags, out);
  file->pMethods = real_of(file)->pMethods != NULL ? &file_methods : NULL;
  return code;
}

/* ---- heap ---- */

static void *memory_take(int bytes)
{
  return MUST_FAIL(memory) ? NULL : real_memory.xMalloc(bytes);
}
static void *memory_resize(void *old, int bytes)
{
  return MUST_FAIL(memory) ? NULL : real_memory.xRealloc(old, bytes);
}

void failing_install(void)
{
  sqlite3_mem_methods counted;
  sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real_memory);
  counted = real_memory;
  counted.xMalloc = memory_take;
  counted.xRealloc = memory_resize;
  if (sqlite3_config(SQLITE_CONFIG_MALLOC, &counted) != SQLITE_OK) abort();
  sqlite3_initialize();
  real_vfs = sqlite3_vfs_find(NULL);
  failing_vfs = *real_vfs;
  failing_vfs.zName = "failing";
  failing_vfs.szOsFile = (int)sizeof(struct failing_file) + real_vfs->szOsFile;
  failing_vfs.xOpen = vfs_open;
  failing_vfs.pNext = NULL;
  if (sqlite3_vfs_register(&failing_vfs, 1) != SQLITE_OK) abort();
}

void failing_arm_writes(long n, bool for_good)
{
  writes.until = n;
  writes.for_good = for_good;
  writes.happened = false;
}

void failing_arm_memory(long n, bool for_good)
{
  memory.until = n;
  memory.for_good = for_good;
  memory.happened = false;
}

void failing_arm_unlock(long n, void (*act)(void *context), void *context)
{
  unlocks.until = n;
  unlocks.for_good = false;
  unlocks.happened = false;
  unlock_act = act;
  unlock_context = context;
}

bool failing_happened(void)
{
  return writes.happened || memory.happened || unlocks.happened;
}
