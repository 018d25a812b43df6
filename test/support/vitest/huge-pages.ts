/**
 * Lets malloc of the test workers use huge pages. A worker starts hundreds of processes, and each fork copies the page
 * tables of all memory that malloc has given out: 0.2 ms per MB on a virtual machine, where a worker has 200 to 300 MB.
 * Huge pages reduce that to a twentieth. glibc reads the variable when a process starts, so it is set before the workers
 * start; fresh-process.ts removes it, so that the programs under test run as they do for a user.
 */
export const HUGE_PAGES = { name: "GLIBC_TUNABLES", value: "glibc.malloc.hugetlb=1" };

export default function useHugePages(): void {
  process.env[HUGE_PAGES.name] ??= HUGE_PAGES.value;
}
