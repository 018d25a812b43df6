/** One line of the benchmark report: our figure and the figures that it is compared with. */
export interface Row {
  name: string;
  metric: string;
  ours: number;
  /** The figure of the bare implementation that bounds ours, or a fixed target; null if there is neither. */
  limit: number | null;
  /** ours / limit */
  ratio: number | null;
  peers: Record<string, number>;
  better: "higher" | "lower";
}

export function createRow(
  name: string,
  metric: string,
  better: Row["better"],
  ours: number,
  limit: number | null,
  peers: Record<string, number> = {},
): Row {
  return { name, metric, ours, limit, ratio: limit === null ? null : ours / limit, peers, better };
}

export function formatTable(rows: Row[]): string {
  const cells = rows.map((r) => [
    r.name,
    r.metric,
    formatFigure(r.ours),
    r.limit === null ? "–" : formatFigure(r.limit),
    r.ratio === null ? "–" : `${r.ratio.toFixed(2)}×`,
    r.better,
    Object.entries(r.peers)
      .map(([key, value]) => `${key} ${formatFigure(value)}`)
      .join(", "),
  ]);
  const head = ["row", "metric", "ours", "limit", "ours/limit", "better", "peers"];
  const widths = head.map((title, i) => Math.max(title.length, ...cells.map((line) => line[i]!.length)));
  return [head, ...cells]
    .map((line) =>
      line
        .map((cell, i) => cell.padEnd(widths[i]!))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

function formatFigure(value: number): string {
  if (value >= 1000) return Math.round(value).toLocaleString("en");
  return value >= 10 ? value.toFixed(1) : value.toFixed(3);
}
