/**
 * The longest time in ms for which our own work blocked the event loop. On a shared machine a late timer is often
 * caused by other processes, so a gap counts only as far as this thread used the CPU.
 */
const PROBE_MS = 5;

export function measureLag(): () => number {
  let longest = 0;
  let last = performance.now();
  let cpu = process.threadCpuUsage();
  const probe = setInterval(() => {
    const now = performance.now();
    const { user, system } = process.threadCpuUsage(cpu);
    longest = Math.max(longest, Math.min(now - last - PROBE_MS, (user + system) / 1_000));
    last = now;
    cpu = process.threadCpuUsage();
  }, PROBE_MS);
  return () => {
    clearInterval(probe);
    return longest;
  };
}
