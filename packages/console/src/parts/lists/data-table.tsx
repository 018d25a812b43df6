/**
 * A list of any length. Only the rows near the visible ones are in the document. `j` and `k` move between the links of
 * the rows, Enter opens one.
 */
import { useVirtualizer } from "@tanstack/react-virtual";
import { type KeyboardEvent, type ReactNode, useEffect, useRef } from "react";
import styles from "../styles/parts.module.css";

export interface Column<T> {
  header: string;
  /** If the row has a page, the first column contains its `RowLink`. */
  cell: (row: T) => ReactNode;
  numeric?: boolean;
  /** Left out on narrow screens. */
  wide_only?: boolean;
  width?: string;
}

export interface DataTableProps<T> {
  label: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  rowKey: (row: T) => string;
  /** Called when the end of the list comes into view. */
  onEnd?: (() => void) | undefined;
}

const ROW_PX = 48;
const OVERSCAN = 12;

export function DataTable<T>({ label, columns, rows, rowKey, onEnd }: DataTableProps<T>) {
  const scroll = useRef<HTMLDivElement>(null);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    getItemKey: (index) => rowKey(rows[index]!),
  });
  const items = virtual.getVirtualItems();
  const first = items[0];
  const last = items.at(-1);
  const at_end = last !== undefined && last.index >= rows.length - 1;
  useEffect(() => {
    if (at_end) onEnd?.();
  }, [at_end, onEnd]);
  useListKeys(scroll);

  return (
    <div className={styles.tableScroll} ref={scroll}>
      <table className={styles.table} aria-label={label} aria-rowcount={rows.length + 1}>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.header} scope="col" className={classOf(column)} style={{ width: column.width }}>
                {column.header}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {first !== undefined && first.start > 0 && <Spacer height={first.start} span={columns.length} />}
          {items.map(({ index, key }) => (
            <tr
              key={key}
              className={styles.row}
              data-index={index}
              aria-rowindex={index + 2}
              ref={virtual.measureElement}
            >
              {columns.map((column) => (
                <td key={column.header} className={classOf(column)}>
                  {column.cell(rows[index]!)}
                </td>
              ))}
            </tr>
          ))}
          {last !== undefined && last.end < virtual.getTotalSize() && (
            <Spacer height={virtual.getTotalSize() - last.end} span={columns.length} />
          )}
        </tbody>
      </table>
    </div>
  );
}

function classOf({ numeric, wide_only }: Pick<Column<unknown>, "numeric" | "wide_only">): string | undefined {
  const classes = [numeric ? styles.numeric : "", wide_only ? styles.wideOnly : ""].filter(Boolean);
  return classes.length === 0 ? undefined : classes.join(" ");
}

/** Stands for the rows that are not in the document. */
function Spacer({ height, span }: { height: number; span: number }) {
  return (
    <tr className={styles.spacer}>
      <td colSpan={span} style={{ height }} />
    </tr>
  );
}

/** The keys work wherever the focus is, unless a text is being edited or a dialog is open. */
export function useListKeys(list: React.RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const onKey = (event: globalThis.KeyboardEvent) => {
      if (event.key !== "j" && event.key !== "k") return;
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
      if (document.querySelector('[role="dialog"]') !== null) return;
      const links = [...(list.current?.querySelectorAll<HTMLElement>("[data-row-link]") ?? [])];
      const at = links.indexOf(document.activeElement as HTMLElement);
      const next = event.key === "j" ? at + 1 : Math.max(0, at - 1);
      const link = links[Math.min(next, links.length - 1)];
      link?.focus();
      link?.scrollIntoView({ block: "nearest" });
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [list]);
}

export function isTyping({ target }: Pick<KeyboardEvent | globalThis.KeyboardEvent, "target">): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}
