const MAX_WRITES = 8;

/** Writes a few small files concurrently. A failure is thrown by the next `add` or by `waitForIdle`. */
export function createWriteQueue() {
  const running = new Set<Promise<void>>();
  const failures: unknown[] = [];
  const throwFirstFailure = () => {
    if (failures.length > 0) throw failures[0];
  };
  return {
    async add(work: () => Promise<void>): Promise<void> {
      while (running.size >= MAX_WRITES) await Promise.race(running);
      throwFirstFailure();
      const task: Promise<void> = work()
        .catch((error: unknown) => void failures.push(error))
        .finally(() => running.delete(task));
      running.add(task);
    },
    async waitForIdle(): Promise<void> {
      await Promise.all(running);
      throwFirstFailure();
    },
  };
}
