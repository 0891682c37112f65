if (ARGC != 2) { print "usage: gnuplot -d -c timeline.gp DATA.csv OUT.svg|OUT.png"; exit status 2 }

# Running, waiting and KV pages over virtual time: one panel each above a shared time axis, one line
# per run. Columns by name: series (0, 1, ...), label, time_s, running, waiting, kv_used_percent.
set encoding utf8
set datafile separator comma
set datafile columnheaders

# Missing or empty data leaves no statistics behind: status 1. The pass also collects the names.
array names[64]
stats ARG1 using (names[int(column("series")) + 1] = strcol("label"), column("series")) \
      name "SERIES" nooutput
if (!exists("SERIES_max")) exit status 1
if (SERIES_max > 63) { print "at most 64 runs fit in one figure"; exit status 1 }
stats ARG1 using (column("time_s")) name "TIME" nooutput
stats ARG1 using (column("running")) name "RUNNING" nooutput
stats ARG1 using (column("waiting")) name "WAITING" nooutput
runs = int(SERIES_max) + 1

# Fixed width; the height grows with the legend only. All vertical places are in pixels.
legend = 20 + 24 * runs
height = 625 + legend
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
of(i, value) = int(column("series")) == i - 1 ? value : NaN
room(most) = most > 0 ? most * 1.06 : 1 # an axis from 0 needs a height even if nothing happened
# A step of 1, 2 or 5 times a power of ten that gives at most five tics.
power(most) = 10 ** floor(log10(most / 4.0))
step(most) = most <= 4 ? 1 : most / 4.0 <= power(most) ? power(most) : \
             most / 4.0 <= 2 * power(most) ? 2 * power(most) : \
             most / 4.0 <= 5 * power(most) ? 5 * power(most) : 10 * power(most)

set lmargin at screen 0.085
set rmargin at screen 0.97
set border 3 lc rgb "#595959"
set tics nomirror out tc rgb "#404040"
set grid ytics lc rgb "#d9d9d9" lt 1 lw 1
set xrange [0 : TIME_max > 0 ? TIME_max : 1]
unset key

set multiplot
set label 1 "Running, waiting and KV pages over time" at screen 0.5, y(height - 26) center \
    font title_font

set format x ""
set label 2 "running requests" at graph 0, graph 1 left offset 0.3,0.8
set yrange [0 : room(RUNNING_max)]
set ytics step(RUNNING_max)
set tmargin at screen y(height - 78)
set bmargin at screen y(height - 78 - 135)
plot for [i = 1:runs] ARG1 using (column("time_s")):(of(i, column("running"))) \
     with steps lw 1.6 lc rgb colour(i) dt dashes(i)

unset label 1
set label 2 "waiting requests"
set yrange [0 : room(WAITING_max)]
set ytics step(WAITING_max)
set tmargin at screen y(height - 248)
set bmargin at screen y(height - 248 - 135)
plot for [i = 1:runs] ARG1 using (column("time_s")):(of(i, column("waiting"))) \
     with steps lw 1.6 lc rgb colour(i) dt dashes(i)

set label 2 "KV pages in use (% of the pool)"
set format x
set xlabel "virtual time (s)" offset 0,0.3
set yrange [0 : 105]
set ytics 25
set tmargin at screen y(height - 418)
set bmargin at screen y(height - 418 - 135)
plot for [i = 1:runs] ARG1 using (column("time_s")):(of(i, column("kv_used_percent"))) \
     with steps lw 1.6 lc rgb colour(i) dt dashes(i)

# The legend belongs to all three panels: an empty plot below them carries it.
set lmargin at screen 0
set rmargin at screen 1
set tmargin at screen y(legend)
set bmargin at screen 0
unset border
unset tics
unset label
unset xlabel
unset grid
set xrange [0:1]
set yrange [0:1]
set key at screen 0.085, y(legend - 8) left top vertical Left reverse maxrows runs \
    samplen 2 spacing 1.1
plot for [i = 1:runs] NaN with lines lw 1.6 lc rgb colour(i) dt dashes(i) title names[i]
unset multiplot
