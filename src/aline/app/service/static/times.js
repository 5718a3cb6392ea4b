// Times in the reader's own zone; without this script they stay in UTC.

const shown = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function showTimes(within = document) {
  for (const time of within.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (!Number.isNaN(at.valueOf())) time.textContent = shown.format(at);
  }
}
