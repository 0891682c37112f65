if (ARGC != 2) { print "usage: gnuplot -d -c latency.gp DATA.csv OUT.svg|OUT.png"; exit status 2 }

# Latency distributions: the share of requests (of gaps between tokens, for ITL) that took at most
# this long; one panel per metric, one line per run. Columns by name: series (0, 1, ...), label,
# metric (ttft, tpot, itl, e2e; none for a run without any), latency_ms, share_percent.
set encoding utf8
set datafile separator comma
set datafile columnheaders

# Missing or empty data leaves no statistics behind: status 1. The pass also collects the names and
# each metric's range.
array names[64]
array low[4]
array high[4]
metrics = "ttft tpot itl e2e"
do for [m = 1:4] { low[m] = 1e300; high[m] = 0 }
index(metric) = metric eq "ttft" ? 1 : metric eq "tpot" ? 2 : metric eq "itl" ? 3 : \
                metric eq "e2e" ? 4 : 0
widen(m, ms) = m == 0 ? 0 : \
               (low[m] = ms < low[m] ? ms : low[m], high[m] = ms > high[m] ? ms : high[m])
stats ARG1 using (names[int(column("series")) + 1] = strcol("label"), \
                  widen(index(strcol("metric")), column("latency_ms")), column("series")) \
      name "SERIES" nooutput
if (!exists("SERIES_max")) exit status 1
if (SERIES_max > 63) { print "at most 64 runs fit in one figure"; exit status 1 }
runs = int(SERIES_max) + 1

# Fixed width; the height grows with the legend only. All vertical places are in pixels.
legend = 20 + 24 * runs
height = 735 + legend
if (ARG2[strlen(ARG2)-3:] eq ".png") {
  title_font = ",17" # in points; the other terminal counts pixels
  set terminal pngcairo size 1000,height noenhanced font "DejaVu Sans,11" background rgb "white"
} else {
  title_font = ",22"
  set terminal svg size 1000,height fixed noenhanced font "DejaVu Sans,14" background rgb "white"
}
set output ARG2
y(pixels) = (pixels + 0.0) / height

array colours[8] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", \
                    "#8C6D00"]
colour(i) = colours[(i - 1) % 8 + 1]
dashes(i) = (i - 1) / 8 + 1
of(i, m, value) = int(column("series")) == i - 1 && strcol("metric") eq word(metrics, m) \
                  ? value : NaN

# A step of 1, 2 or 5 times a power of ten that gives at most five tics.
power(most) = 10 ** floor(log10(most / 4.0))
step(most) = most / 4.0 <= power(most) ? power(most) : most / 4.0 <= 2 * power(most) ? \
             2 * power(most) : most / 4.0 <= 5 * power(most) ? 5 * power(most) : 10 * power(most)

array titles[4] = ["TTFT: time to first token", "TPOT: time per output token", \
                   "ITL: gap between tokens", "E2E: whole request"]
array units[4] = ["requests", "requests", "gaps", "requests"]

set border 3 lc rgb "#595959"
set tics nomirror out tc rgb "#404040"
set ytics (0, 25, 50, 75, 95) # 95: the percentile that targets are stated in
set grid xtics ytics lc rgb "#d9d9d9" lt 1 lw 1
set yrange [0 : 101]
unset key

set multiplot
set label 1 "Latency distributions" at screen 0.5, y(height - 26) center font title_font
do for [m = 1:4] {
  left = m % 2 == 1 ? 0.085 : 0.575
  top = m <= 2 ? height - 84 : height - 415
  set lmargin at screen left
  set rmargin at screen left + 0.395
  set tmargin at screen y(top)
  set bmargin at screen y(top - 230)
  set label 2 titles[m] at graph 0, graph 1 left offset 0.3,0.8
  set ylabel sprintf("%s (%%)", units[m]) offset 1,0
  set xlabel "at most (ms)" offset 0,0.3
  unset logscale x
  set xtics autofreq
  if (high[m] == 0) {
    # Nobody is covered by this metric in any of the runs.
    set xrange [0:1]
    set label 3 "no data" at graph 0.5, graph 0.5 center tc rgb "#595959"
    plot NaN
    unset label 3
  } else {
    # A wide range needs a logarithm to be read; a narrow one would have no tick to read it by.
    if (high[m] > 20 * low[m]) {
      set logscale x
      set xrange [low[m] / 1.1 : high[m] * 1.1]
    } else {
      set xrange [0 : high[m] * 1.05]
      set xtics step(high[m])
    }
    plot for [i = 1:runs] ARG1 using (of(i, m, column("latency_ms"))):(column("share_percent")) \
         with steps lw 1.6 lc rgb colour(i) dt dashes(i)
  }
  unset label 1
}

# The legend belongs to all four panels: an empty plot below them carries it.
set lmargin at screen 0
set rmargin at screen 1
set tmargin at screen y(legend)
set bmargin at screen 0
unset border
unset tics
unset label
unset xlabel
unset ylabel
unset grid
unset logscale
set xrange [0:1]
set yrange [0:1]
set key at screen 0.085, y(legend - 8) left top vertical Left reverse maxrows runs \
    samplen 2 spacing 1.1
plot for [i = 1:runs] NaN with lines lw 1.6 lc rgb colour(i) dt dashes(i) title names[i]
unset multiplot
