/**
 * The longest time that `run` blocked the event loop, as CPU time of this thread between two ticks of a timer: on a
 * busy machine the wall clock would include the time of other programs.
 */
export async function loopLag(run: () => Promise<void>): Promise<number> {
  let longest = 0;
  let last = busyMs();
  const tick = (): void => {
    const now = busyMs();
    longest = Math.max(longest, now - last);
    last = now;
  };
  const timer = setInterval(tick, 1);
  await new Promise((resolve) => setTimeout(resolve, 5));
  last = busyMs();
  longest = 0;
  await run();
  tick();
  clearInterval(timer);
  return longest;
}

function busyMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
}
