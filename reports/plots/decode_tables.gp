usage = "usage: gnuplot -d -c decode_tables.gp DATA.csv OUT.svg|OUT.png"
if (ARGC != 2) { print usage; exit status 2 }

# Throughput over concurrent requests: published figures as points, predictions as a line (the
# profile was fitted to these rows) and as circles (predicted from the other rows alone). One panel
# per series. Columns by name: series (0, 1, ...), label, requests, published_tok_s,
# predicted_tok_s, kind (calibrated, left-out, derived, modelled).
set encoding utf8
set datafile separator comma
set datafile columnheaders

# Missing or empty data leaves no statistics behind: status 1. The pass also collects the names and
# each panel's ranges.
array names[16]
array most[16]
array least_x[16]
array most_x[16]
do for [i = 1:16] { most[i] = 0; least_x[i] = 1e300; most_x[i] = 0 }
larger(a, b) = a > b ? a : b
smaller(a, b) = a < b ? a : b
note(i, x, y, z) = (most[i] = larger(most[i], larger(y, z)), least_x[i] = smaller(least_x[i], x), \
                    most_x[i] = larger(most_x[i], x))
stats ARG1 using (names[int(column("series")) + 1] = strcol("label"), \
                  note(int(column("series")) + 1, column("requests"), column("published_tok_s"), \
                       column("predicted_tok_s")), column("series")) name "SERIES" nooutput
if (!exists("SERIES_max")) exit status 1
if (SERIES_max > 15) { print "at most 16 tables fit in one figure"; exit status 1 }
panels = int(SERIES_max) + 1
rows = (panels + 1) / 2

# Fixed width; the height grows with the rows of panels. All vertical places are in pixels.
height = 110 + 330 * rows
if (ARG2[strlen(ARG2)-3:] eq ".png") {
  title_font = ",17" # in points; the other terminal counts pixels
  set terminal pngcairo size 1000,height noenhanced font "DejaVu Sans,11" background rgb "white"
} else {
  title_font = ",22"
  set terminal svg size 1000,height fixed noenhanced font "DejaVu Sans,14" background rgb "white"
}
set output ARG2
y(pixels) = (pixels + 0.0) / height

of(i, kind, value) = int(column("series")) == i - 1 && strcol("kind") eq kind ? value : NaN
fitted(i, value) = int(column("series")) == i - 1 && strcol("kind") ne "left-out" ? value : NaN

set border 3 lc rgb "#595959"
set tics nomirror out tc rgb "#404040"
set grid xtics ytics lc rgb "#d9d9d9" lt 1 lw 1
unset key

set multiplot
set label 1 "Output tokens per second: predicted against published" at screen 0.5, y(height - 26) \
    center font title_font
do for [i = 1:panels] {
  left = i % 2 == 1 ? 0.085 : 0.575
  top = height - 84 - 330 * ((i - 1) / 2)
  set lmargin at screen left
  set rmargin at screen left + 0.395
  set tmargin at screen y(top)
  set bmargin at screen y(top - 230)
  set label 2 names[i] at graph 0, graph 1 left offset 0.3,0.8
  set ylabel "tok/s" offset 1,0
  set xlabel "concurrent requests" offset 0,0.3
  unset logscale x
  if (most_x[i] > 4 * least_x[i]) { set logscale x 2 }
  set xrange [least_x[i] / 1.3 : most_x[i] * 1.3]
  set yrange [0 : most[i] * 1.12]
  plot ARG1 using (column("requests")):(fitted(i, column("predicted_tok_s"))) \
            with lines lw 1.8 lc rgb "#0072B2", \
       ARG1 using (column("requests")):(of(i, "left-out", column("predicted_tok_s"))) \
            with points pt 6 ps 1.4 lw 1.4 lc rgb "#D55E00", \
       ARG1 using (column("requests")):(fitted(i, column("published_tok_s"))) \
            with points pt 7 ps 0.7 lc rgb "#000000"
  unset label 1
}

# The legend belongs to all panels: an empty plot below them carries it.
set lmargin at screen 0
set rmargin at screen 1
set tmargin at screen y(36)
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
set key at screen 0.5, y(28) center top horizontal Left reverse samplen 2
plot NaN with points pt 7 ps 0.7 lc rgb "#000000" title "published", \
     NaN with lines lw 1.8 lc rgb "#0072B2" title "predicted, fitted to these rows", \
     NaN with points pt 6 ps 1.4 lw 1.4 lc rgb "#D55E00" title "predicted from the other rows"
unset multiplot
