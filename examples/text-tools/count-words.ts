/** Shared by the tools; a file outside of tools/ is no tool. */
export function countWords(text: string): number {
  return text.split(/\s+/).filter((word) => word !== "").length;
}
